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
	// payload that goes over, in bytes: more than a packet of any network, so that one that loses large packets shows.
	payload = 64 << 10
	// mostHeader and mostAnswer are the longest lines, in bytes.
	mostHeader, mostAnswer = 256, 1024
	// atOnce is how many connections are served.
	atOnce = 8
	magic  = "kamino-probe"
)

// reach sends a payload to a server and has it told what came: its digest. With an address of one's own the server comes back
// to it in the same way, and returned is what that said.
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
	answer := bufio.NewReaderSize(io.LimitReader(conn, 2*mostAnswer), mostAnswer)
	line, err := answer.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("no answer of %s: %w", address, err)
	}
	if want := sha256.Sum256(body); strings.TrimSpace(line) != hex.EncodeToString(want[:]) {
		return nil, fmt.Errorf("%s got something else than was sent", address)
	}
	if own == "" {
		return nil, nil
	}
	line, err = answer.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("no word of %s on the way back: %w", address, err)
	}
	if said := strings.TrimSpace(line); said != "ok" {
		return errors.New(said), nil
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

// serve until the context ends, and everything that was begun with it.
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
			one, end := context.WithTimeout(ctx, 3*oneTry)
			defer end()
			defer context.AfterFunc(one, func() { _ = conn.Close() })()
			s.answer(one, conn)
			_ = conn.Close()
		}()
	}
}

// answer one connection. It comes back to nobody who does not know the key, and to no other port than its own.
func (s *server) answer(ctx context.Context, conn net.Conn) {
	in := bufio.NewReaderSize(io.LimitReader(conn, mostHeader+payload), mostHeader)
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
	said := "ok"
	if err := s.back(ctx, fields[2]); err != nil {
		said = strings.ReplaceAll(err.Error(), "\n", "; ")
		said = said[:min(len(said), mostSaid)]
	}
	_, _ = fmt.Fprintf(conn, "%s\n", said)
}

// back goes the way back, in less time than who asked waits for.
func (s *server) back(ctx context.Context, host string) error {
	address, err := netip.ParseAddr(host)
	if err != nil {
		return err
	}
	ctx, end := context.WithTimeout(ctx, oneTry/2)
	defer end()
	_, err = reach(ctx, net.JoinHostPort(address.String(), fmt.Sprint(s.port)), s.key, "")
	return err
}
