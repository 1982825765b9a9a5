package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Host is what a configuration takes from the machine it runs on.
type Host struct {
	Name    string       // "" = unknown
	Private []netip.Addr // its private addresses (RFC 1918, RFC 4193)
}

// ThisHost asks the machine.
func ThisHost() Host {
	h := Host{Name: hostName()}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return h // then a wildcard needs an advertise address, and is told so
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsPrivate() {
			h.Private = append(h.Private, p.Addr().Unmap())
		}
	}
	return h
}

// host is the host part of an address: an IP address, or a name.
type host struct {
	ip   netip.Addr // zero for a name
	name string
}

func (h host) wildcard() bool { return h.ip.IsValid() && h.ip.IsUnspecified() }

// reaches returns those of the host's addresses that a wildcard listens on:
// 0.0.0.0 hears IPv4 only, [::] both.
func (h host) reaches(addrs []netip.Addr) (out []netip.Addr) {
	for _, a := range addrs {
		if h.ip.Is6() || a.Is4() {
			out = append(out, a)
		}
	}
	return out
}

// overlaps reports whether two listeners of one port would collide. Names are
// not looked up, so they might.
func (h host) overlaps(o host) bool {
	if !h.ip.IsValid() || !o.ip.IsValid() || h.wildcard() || o.wildcard() {
		return true
	}
	return h.ip.Unmap() == o.ip.Unmap()
}

// split takes host:port apart; why says what is wrong with it.
func split(addr string) (h host, port int, why string) {
	name, digits, err := net.SplitHostPort(addr)
	if err != nil {
		switch {
		case addr == "":
			return h, 0, "is empty: want host:port"
		case !strings.Contains(addr, ":"):
			return h, 0, "has no port: want host:port"
		default:
			return h, 0, "is not host:port (an IPv6 address stands in brackets)"
		}
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || strings.HasPrefix(digits, "+") {
		return h, 0, "has no usable port: want 1 to 65535"
	}
	if name == "" {
		return host{ip: netip.IPv6Unspecified()}, int(n), "" // every address of the machine
	}
	ip, err := netip.ParseAddr(name)
	if err == nil {
		if ip.IsMulticast() || ip.Unmap() == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return h, 0, "is not the address of one host"
		}
		return host{ip: ip, name: name}, int(n), ""
	}
	if !validName(name) {
		return h, 0, "has no valid host"
	}
	return host{name: name}, int(n), ""
}

// validName accepts host names as in RFC 1123, and underscores, which people
// use. A last label of digits alone is a mistyped IP address.
func validName(name string) bool {
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > 253 {
		return false
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
			return false
		}
		for _, c := range []byte(l) {
			if c != '-' && c != '_' && !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z') {
				return false
			}
		}
	}
	return strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

// purposes are the names of the four addresses.
var purposes = [4]string{"client", "peer", "gossip", "http"}

func (a *Addresses) list() [4]*string { return [4]*string{&a.Client, &a.Peer, &a.Gossip, &a.HTTP} }

// listen judges the listen addresses; the result says which of them are fine.
func (j *judge) listen(a Addresses) (fine [4]bool) {
	var hosts [4]host
	var ports [4]int
	for i, addr := range a.list() {
		h, port, why := split(*addr)
		j.check("listen."+purposes[i], why == "", "%q %s", clip(*addr), why)
		hosts[i], ports[i], fine[i] = h, port, why == ""
		for k := range i {
			if fine[i] && fine[k] && ports[i] == ports[k] && hosts[i].overlaps(hosts[k]) {
				j.caused("listen."+purposes[k], "listen."+purposes[i], "port %d is taken by listen.%s", port, purposes[k])
			}
		}
	}
	return fine
}

// advertise returns the addresses that others dial: those given, else those
// listened on, else the host's only private address.
func (j *judge) advertise(listen, given Addresses, listenFine [4]bool, h Host) Addresses {
	out, listens := given, listen.list()
	taken, explicit := map[string]int{}, [4]bool{}
	for i, addr := range out.list() {
		key := "advertise." + purposes[i]
		if explicit[i] = *addr != ""; !explicit[i] {
			if !listenFine[i] {
				continue
			}
			bound, port, _ := split(*listens[i])
			switch {
			case !bound.wildcard():
				*addr = *listens[i]
			case len(bound.reaches(h.Private)) == 1:
				*addr = net.JoinHostPort(bound.reaches(h.Private)[0].String(), strconv.Itoa(port))
			default:
				j.caused("listen."+purposes[i], key, "needed, since listen.%s is %q and this host has %s",
					purposes[i], *listens[i], several(bound.reaches(h.Private)))
				continue
			}
		}
		dialled, _, why := split(*addr)
		j.check(key, why == "", "%q %s", clip(*addr), why)
		j.check(key, why != "" || !dialled.wildcard(), "%q is no address to dial: name the host", clip(*addr))
		if k, ok := taken[*addr]; ok && (explicit[i] || explicit[k]) { // else the listen addresses are at fault
			j.fault(key, "the same as advertise.%s", purposes[k])
		}
		taken[*addr] = i
	}
	return out
}

// several says why none of the addresses can be taken.
func several(addrs []netip.Addr) string {
	if len(addrs) == 0 {
		return "no private address to take instead"
	}
	var s []string
	for _, a := range addrs {
		s = append(s, a.String())
	}
	return fmt.Sprintf("%d private addresses (%s)", len(s), clip(strings.Join(s, ", ")))
}
