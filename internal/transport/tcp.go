package transport

import (
	"context"
	"net"
	"syscall"
)

// tcp is the Net of the product. The kernel notices a silent host: keepalive
// probes on idle connections, the user timeout on unacknowledged data. gRPC's own
// keepalive cannot do it, it pings no sooner than every 10 s. A process that is
// merely stopped keeps its connections, since its kernel goes on acknowledging.
type tcp struct{}

var keepalive = net.KeepAliveConfig{
	Enable: true, Idle: keepaliveIdle, Interval: keepaliveIdle,
	Count: int((silence - keepaliveIdle) / keepaliveIdle),
}

func (tcp) Listen(addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepalive, Control: control}
	return lc.Listen(context.Background(), "tcp", addr)
}

func (tcp) Dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepalive, Control: control}
	return d.DialContext(ctx, "tcp", addr)
}

// control sets the user timeout; accepted connections inherit it from the listener.
func control(network, address string, c syscall.RawConn) error {
	var failed error
	if err := c.Control(func(fd uintptr) { failed = setUserTimeout(fd, silence) }); err != nil {
		return err
	}
	return failed
}
