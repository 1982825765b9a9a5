package cli

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// fakeRedis answers GET, SET, APPEND, DEL and AUTH, and fails as the key says.
type fakeRedis struct {
	listener net.Listener
	password string
	data     sync.Map                  // string -> []byte
	moved    atomic.Pointer[fakeRedis] // where all keys live, if set
	conns    sync.WaitGroup
}

func newFakeRedis(password string) *fakeRedis {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	f := &fakeRedis{listener: l, password: password}
	f.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.conns.Go(func() {
				defer conn.Close()
				f.serve(conn)
			})
		}
	})
	return f
}

func (f *fakeRedis) addr() string { return f.listener.Addr().String() }

func (f *fakeRedis) close() {
	f.listener.Close()
	f.conns.Wait()
}

func (f *fakeRedis) serve(conn net.Conn) {
	r, authorized := bufio.NewReader(conn), f.password == ""
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		answer := f.answer(args)
		switch {
		case args[0] == "AUTH" && args[1] == f.password:
			authorized, answer = true, "+OK\r\n"
		case args[0] == "AUTH":
			answer = "-WRONGPASS invalid password\r\n"
		case !authorized:
			answer = "-NOAUTH Authentication required.\r\n"
		case answer == "":
			return
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	count := func(sigil byte) (int, error) {
		line, err := r.ReadString('\n')
		if err != nil || line[0] != sigil {
			return 0, io.ErrUnexpectedEOF
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := count('*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := count('$')
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		args[i] = string(b[:size])
	}
	return args, nil
}

func (f *fakeRedis) answer(args []string) string {
	if moved := f.moved.Load(); moved != nil {
		if len(args) > 2 && args[0] == "DEL" {
			return "-CROSSSLOT Keys in request don't hash to the same slot\r\n"
		}
		return "-MOVED 866 " + moved.addr() + "\r\n"
	}
	switch key := args[1]; key {
	case "err:hangup":
		return ""
	case "err:garbage":
		return "garbage\r\n"
	case "err:huge":
		return "$999999999999\r\n"
	case "err:timeout":
		return "-TIMEOUT the outcome is unknown: it may have happened\r\n"
	case "err:tryagain":
		return "-TRYAGAIN group 2 has no leader\r\n"
	case "err:forever":
		return "-MOVED 866 " + f.addr() + "\r\n"
	}
	old, _ := f.data.Load(args[1])
	value, _ := old.([]byte)
	switch args[0] {
	case "GET":
		if value == nil {
			return "$-1\r\n"
		}
		return fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
	case "SET":
		f.data.Store(args[1], []byte(args[2]))
		return "+OK\r\n"
	case "APPEND":
		value = append(value[:len(value):len(value)], args[2]...)
		f.data.Store(args[1], value)
		return fmt.Sprintf(":%d\r\n", len(value))
	case "DEL":
		n := 0
		for _, key := range args[1:] {
			if _, had := f.data.LoadAndDelete(key); had {
				n++
			}
		}
		return fmt.Sprintf(":%d\r\n", n)
	}
	return "-ERR unknown command\r\n"
}
