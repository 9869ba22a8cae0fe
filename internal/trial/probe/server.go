package probe

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

const (
	// payload is the number of bytes to send: more than a packet of any network, so that a network that drops large packets
	// fails.
	payload = 64 << 10
	// maxHeader and maxAnswer limit the lines, in bytes.
	maxHeader, maxAnswer = 256, 1024
	// atOnce limits the concurrent connections.
	atOnce = 8
	magic  = "kamino-probe"
)

// reach sends a payload to a server, and checks the digest in the answer. With the own address, the server connects back in
// the same way, and returned is the error of that connection.
func reach(ctx context.Context, address, key, own string) (returned, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	body := make([]byte, payload)
	_, _ = rand.Read(body)
	if _, err := fmt.Fprintf(conn, "%s %s %s\n", magic, key, own); err != nil {
		return nil, err
	}
	if _, err := conn.Write(body); err != nil {
		return nil, err
	}
	answer := bufio.NewReaderSize(io.LimitReader(conn, 2*maxAnswer), maxAnswer)
	line, err := answer.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("no answer from %s: %w", address, err)
	}
	if want := sha256.Sum256(body); strings.TrimSpace(line) != hex.EncodeToString(want[:]) {
		return nil, fmt.Errorf("%s received other data than was sent", address)
	}
	if own == "" {
		return nil, nil
	}
	line, err = answer.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("no answer from %s about the way back: %w", address, err)
	}
	if message := strings.TrimSpace(line); message != "ok" {
		return errors.New(message), nil
	}
	return nil, nil
}

// server answers pods that know the key.
type server struct {
	key      string
	port     int
	listener net.Listener
}

func (s *server) listen(ctx context.Context, address string) (err error) {
	s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(address, fmt.Sprint(s.port)))
	return err
}

// serve answers until the context ends, and then waits for open connections.
func (s *server) serve(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { _ = s.listener.Close() })()
	places := make(chan struct{}, atOnce)
	defer func() {
		for range atOnce {
			places <- struct{}{}
		}
	}()
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		places <- struct{}{}
		go func() {
			defer func() { <-places }()
			one, end := context.WithTimeout(ctx, 3*tryTimeout)
			defer end()
			defer context.AfterFunc(one, func() { _ = conn.Close() })()
			s.answer(one, conn)
			_ = conn.Close()
		}()
	}
}

// answer handles one connection. The server connects back only to a pod that knows the key, and only to the server's own
// port number.
func (s *server) answer(ctx context.Context, conn net.Conn) {
	in := bufio.NewReaderSize(io.LimitReader(conn, maxHeader+payload), maxHeader)
	header, err := in.ReadSlice('\n')
	if err != nil {
		return
	}
	fields := strings.Split(strings.TrimSuffix(string(header), "\n"), " ")
	if len(fields) != 3 || fields[0] != magic || subtle.ConstantTimeCompare([]byte(fields[1]), []byte(s.key)) != 1 {
		return
	}
	body := make([]byte, payload)
	if _, err := io.ReadFull(in, body); err != nil {
		return
	}
	sum := sha256.Sum256(body)
	if _, err := fmt.Fprintf(conn, "%s\n", hex.EncodeToString(sum[:])); err != nil || fields[2] == "" {
		return
	}
	message := "ok"
	if err := s.back(ctx, fields[2]); err != nil {
		message = strings.ReplaceAll(err.Error(), "\n", "; ")
		message = message[:min(len(message), maxSays)]
	}
	_, _ = fmt.Fprintf(conn, "%s\n", message)
}

// back connects back, in less time than the other pod waits.
func (s *server) back(ctx context.Context, host string) error {
	address, err := netip.ParseAddr(host)
	if err != nil {
		return err
	}
	ctx, end := context.WithTimeout(ctx, tryTimeout/2)
	defer end()
	_, err = reach(ctx, net.JoinHostPort(address.String(), fmt.Sprint(s.port)), s.key, "")
	return err
}
