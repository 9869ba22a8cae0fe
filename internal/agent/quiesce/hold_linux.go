package quiesce

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

const (
	// startLimit is how long the helper may take to be ready.
	startLimit = 10 * time.Second
	// overdue is how long after the limit of a freeze this process itself thaws.
	overdue = time.Second
	// goneLimit is how long after that the helper may still be there: longer than the guard lets it.
	goneLimit = guardLimit + 3*guardStop
)

// hold is a freeze, seen from the run. Run and guard can both thaw, and neither needs the other.
type hold struct {
	// root is a descriptor of the root directory, opened before the freeze.
	root int
	conn *os.File
	// messages are the helper's; closed at the end of the helper and the guard.
	messages chan message
	// said is the text of a program that could not start.
	said chan string
	// begun is when the freeze was asked for.
	begun time.Time
}

// prepare starts the helper under its guard, and waits until it is ready. An error says why there will be no freeze.
func prepare(ctx context.Context, t *tree.Tree, root int, name string, start starter) (*hold, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a connection for the helper: %w", err)
	}
	h := &hold{
		root: root, conn: os.NewFile(uintptr(pair[0]), "helper"), //nolint:gosec // a descriptor is not negative
		messages: make(chan message, 4), said: make(chan string, 1),
	}
	socket := os.NewFile(uintptr(pair[1]), "run") //nolint:gosec // a descriptor is not negative
	g, err := guardOf(t, name, socket)
	if err == nil {
		err = start(ctx, t, g)
	}
	// The guard has a descriptor of its own by now.
	if err = errors.Join(err, socket.Close()); err != nil {
		return nil, errors.Join(err, h.conn.Close())
	}
	go h.listen()
	select {
	case m, open := <-h.messages:
		if open && m.kind == msgReady {
			return h, nil
		}
	case <-time.After(startLimit):
	case <-ctx.Done():
	}
	// Without a request to proceed the helper ends, and never freezes.
	h.Close()
	select {
	case text := <-h.said:
		return nil, fmt.Errorf("the helper is not ready: %s", text)
	default:
		return nil, errors.Join(errors.New("the helper is not ready"), ctx.Err())
	}
}

// maxText is the longest text of a program that could not start, in bytes.
const maxText = 500

// listen passes on what the helper says.
func (h *hold) listen() {
	defer close(h.messages)
	buffer, text := make([]byte, 4096), ""
	for {
		n, err := h.conn.Read(buffer)
		if err != nil || n == 0 {
			if text = strings.Join(strings.Fields(text), " "); text != "" {
				h.said <- strings.ToValidUTF8(text[:min(len(text), maxText)], "")
			}
			return
		}
		if m, isMessage := decode(buffer[:n]); isMessage {
			h.messages <- m
		} else if said := string(buffer[:n]); len(text) < maxText && !strings.HasPrefix(said, thawProgram) {
			text += said // the guard's own program fails if nothing is frozen
		}
	}
}

func (h *hold) tell(k kind) error {
	var p packet
	message{kind: k}.encode(&p)
	_, err := h.conn.Write(p[:])
	return err
}

// Freeze asks the helper for the freeze.
func (h *hold) Freeze() (why string, err error) {
	h.begun = time.Now()
	if err := h.tell(msgProceed); err == nil {
		select {
		case m, open := <-h.messages:
			switch {
			case open && m.kind == msgFrozen:
				return "", nil
			case open && m.kind == msgFailed && errors.Is(m.errno, unix.EBUSY):
				return "", errors.New("another program has frozen the root file system: run fsfreeze --unfreeze / on the node, then try again")
			case open && m.kind == msgFailed:
				return fmt.Sprintf("the kernel does not freeze the root file system: %v", m.errno), nil
			}
		case <-time.After(freezeLimit + overdue):
		}
	}
	_ = h.release()
	return "", ErrNotFrozen
}

// Thaw implements Guard.
func (h *hold) Thaw(ctx context.Context, answers <-chan bool) (frozenFor time.Duration, late string) {
	m := h.until(ctx, answers)
	return m.took, m.late()
}

// until passes on the answer, and waits for the thaw. Without an answer the helper thaws itself after a second.
func (h *hold) until(ctx context.Context, answers <-chan bool) *message {
	select {
	case yes := <-answers:
		answer := msgRefused
		if yes {
			answer = msgAccepted
		}
		_ = h.tell(answer) // a helper that is gone needs no answer
	case <-ctx.Done():
		_ = h.tell(msgRefused)
	case m, open := <-h.messages:
		if open && m.isThaw() {
			return &m
		}
		return h.release()
	case <-time.After(answerLimit):
	}
	select {
	case m, open := <-h.messages:
		if open && m.isThaw() {
			return &m
		}
	case <-time.After(overdue):
	}
	return h.release()
}

// release thaws by this process's own descriptor, again and again until the helper and its guard are gone: a helper that goes
// on late could freeze after a single thaw.
func (h *hold) release() *message {
	gone := time.After(goneLimit)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for over := false; !over; {
		// The helper freezes a single time: the thaw that succeeds is the last one.
		over = ioctl(h.root, fiThaw) == 0
		if over {
			break
		}
		select {
		case _, open := <-h.messages:
			if !open {
				_ = ioctl(h.root, fiThaw)
				over = true
			}
		case <-gone:
			over = true
		case <-again.C:
		}
	}
	return &message{kind: msgThawed, took: time.Since(h.begun), released: true}
}

// Close ends a helper that waits, and waits for the end of the guard, so that its unit is gone.
func (h *hold) Close() {
	_ = h.tell(msgRefused)
	gone := time.After(goneLimit)
	for open := true; open; {
		select {
		case _, open = <-h.messages:
		case <-gone:
			open = false
		}
	}
	_ = h.conn.Close()
}
