package transport

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

var unary = grpc.StreamDesc{StreamName: "Call"}

// Call sends one request as a unary call: for control, not for what is hot.
func (t *Transport) Call(ctx context.Context, node string, k Kind, req []byte) ([]byte, error) {
	stream, err := t.open(ctx, peerKey{node, streamCalls}, &unary, callPath, k, req)
	if err != nil {
		return nil, err
	}
	var in inMsg
	if err := stream.RecvMsg(&in); err != nil {
		return nil, broken(ctx, err)
	}
	return unpack(in.b)
}

// Bulk sends one request and calls recv for each frame of the answer, in order,
// on a connection apart from that of Call and Ask. recv's error ends it and is
// returned. A nil error means that all frames came.
func (t *Transport) Bulk(ctx context.Context, node string, k Kind, req []byte, recv func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // tells the sender when recv gives up
	stream, err := t.open(ctx, peerKey{node, streamBulk}, &bulkStream, bulkPath, k, req)
	if err != nil {
		return err
	}
	for {
		var in inMsg
		if err := stream.RecvMsg(&in); err != nil {
			return broken(ctx, err)
		}
		if len(in.b) == 1 && status(in.b[0]) == statusEnd {
			_ = stream.RecvMsg(&in) // frees the stream; all frames are here, however it ended
			return nil
		}
		frame, err := unpack(in.b)
		if err != nil {
			return err
		}
		if err := recv(frame); err != nil {
			return err
		}
	}
}

// open sends one request on a stream of its own. Until it has been handed to the
// connection a failure is ErrNotSent; a handler never runs without its request.
func (t *Transport) open(ctx context.Context, key peerKey, desc *grpc.StreamDesc, path string, k Kind, req []byte) (grpc.ClientStream, error) {
	if len(req) > MaxMessage {
		return nil, fmt.Errorf("%w: request of %d bytes, limit %d", ErrNotSent, len(req), MaxMessage)
	}
	l, err := t.slot(key).get(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := l.cc.NewStream(ctx, desc, path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	if err := stream.SendMsg(newMsg(byte(k), req)); err != nil && !errors.Is(err, io.EOF) {
		return nil, broken(ctx, err)
	}
	if err := stream.CloseSend(); err != nil {
		return nil, broken(ctx, err)
	}
	return stream, nil // an io.EOF above: RecvMsg knows why
}

// broken says that an attempt is in doubt, and why.
func broken(ctx context.Context, err error) error {
	switch { // the standard errors rather than gRPC's words for them
	case ctx.Err() != nil:
		err = ctx.Err()
	case grpcstatus.Code(err) == codes.DeadlineExceeded: // the server's clock was first
		err = context.DeadlineExceeded
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// unpack reads an answer: its status byte and body.
func unpack(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: empty answer", ErrBroken)
	}
	return result(status(b[0]), b[1:])
}

func result(st status, body []byte) ([]byte, error) {
	switch st {
	case statusOK:
		return body, nil
	case statusFailed:
		return nil, &RemoteError{string(body)}
	case statusUnsent:
		return nil, fmt.Errorf("%w: %s", ErrNotSent, body)
	default:
		return nil, fmt.Errorf("%w: answer of status %d", ErrBroken, st)
	}
}
