package transport

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// The hand-written service: everything is bytes, so there is nothing to generate.
const (
	serviceName = "shardkv.Peer"
	callPath    = "/" + serviceName + "/Call"
	bulkPath    = "/" + serviceName + "/Bulk"
)

var (
	bulkStream = grpc.StreamDesc{StreamName: "Bulk", Handler: serveBulk, ServerStreams: true}
	service    = grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Call", Handler: serveCall}},
		Streams:     []grpc.StreamDesc{bulkStream},
	}
)

// maxWire is what a gRPC message may measure: a full flush and one more frame.
const maxWire = MaxMessage + maxFlush + 1024

func (t *Transport) newServer() *grpc.Server {
	s := grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(maxWire), grpc.MaxSendMsgSize(maxWire),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.ConnectionTimeout(prefaceTimeout),
		grpc.WaitForHandlers(true),
	)
	s.RegisterService(&service, t)
	return s
}

// handlers are looked up with every message and change only at start.
type handlers struct {
	calls [256]atomic.Pointer[Handler]
	bulks [256]atomic.Pointer[BulkHandler]
}

// Handle registers the handler of Call and Ask for a kind.
func (t *Transport) Handle(k Kind, h Handler) { t.handlers.calls[k].Store(&h) }

// HandleBulk registers the handler of Bulk for a kind.
func (t *Transport) HandleBulk(k Kind, h BulkHandler) { t.handlers.bulks[k].Store(&h) }

// serve runs the handler of one request.
func (t *Transport) serve(ctx context.Context, from string, k Kind, req []byte) (status, []byte) {
	h := t.handlers.calls[k].Load()
	if h == nil {
		return statusUnsent, fmt.Appendf(nil, "node does not serve kind %d", k)
	}
	answer, err := (*h)(ctx, from, req)
	if err == nil && len(answer) > MaxMessage {
		err = fmt.Errorf("answer of %d bytes, limit %d", len(answer), MaxMessage)
	}
	if err != nil {
		return statusFailed, []byte(err.Error())
	}
	return statusOK, answer
}

// callerOf returns the node id that the preface of the connection named.
func callerOf(ctx context.Context) (string, error) {
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(nodeAddr); ok {
			return a.node, nil
		}
	}
	return "", errors.New("connection without a preface")
}

func serveCall(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	from, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	var in inMsg
	if err := decode(&in); err != nil {
		return nil, err
	}
	if len(in.b) == 0 {
		return nil, errors.New("empty call")
	}
	st, answer := srv.(*Transport).serve(ctx, from, Kind(in.b[0]), in.b[1:])
	return newMsg(byte(st), answer), nil
}

func serveBulk(srv any, stream grpc.ServerStream) error {
	t, ctx := srv.(*Transport), stream.Context()
	from, err := callerOf(ctx)
	if err != nil {
		return err
	}
	var in inMsg
	if err := stream.RecvMsg(&in); err != nil {
		return err
	}
	if len(in.b) == 0 {
		return errors.New("empty call")
	}
	h := t.handlers.bulks[in.b[0]].Load()
	if h == nil {
		return stream.SendMsg(newMsg(byte(statusUnsent), fmt.Appendf(nil, "node does not serve bulk kind %d", in.b[0])))
	}
	err = (*h)(ctx, from, in.b[1:], func(frame []byte) error {
		if len(frame) > MaxMessage {
			return fmt.Errorf("bulk frame of %d bytes, limit %d", len(frame), MaxMessage)
		}
		return stream.SendMsg(newMsg(byte(statusOK), frame))
	})
	if err != nil {
		return stream.SendMsg(newMsg(byte(statusFailed), []byte(err.Error())))
	}
	return stream.SendMsg(newMsg(byte(statusEnd), nil))
}
