// Package pace decides how fast shards are pulled: it measures what clients
// feel and gives the rate that leaves them alone. All of it is pure.
//
// Without clients the rate doubles until the machine is the limit. With clients
// it is AIMD, driven by their delay as in LEDBAT (RFC 6817), the transport that
// yields to everyone else: the delay of commands while nothing is pulled is the
// base; the rate rises by steps while the delay stays near it and falls by a
// factor when it does not. The base moves with the clients' own load, so pulls
// pause now and then and it is measured anew (LEDBAT++,
// draft-irtf-iccrg-ledbat-plus-plus, "periodic slowdowns").
//
// It must not know who pulls, who is asked, or how: driver and peers do.
package pace
