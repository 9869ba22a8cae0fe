package quiesce

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// kind is the kind of a message between a run and the helper that freezes.
type kind byte

const (
	// msgReady: the helper is locked in memory and waits. From the helper, as the next three.
	msgReady kind = 'R'
	// msgFrozen: the file system is frozen. msgFailed: it is not, and will not be.
	msgFrozen kind = 'F'
	msgFailed kind = 'E'
	// msgThawed: the file system is writable again.
	msgThawed kind = 'T'
	// msgProceed asks for the freeze; msgAccepted and msgRefused end it. To the helper.
	msgProceed  kind = 'G'
	msgAccepted kind = 'y'
	msgRefused  kind = 'n'
)

// message is sent as one packet of a fixed size, so that the helper needs no memory for it.
type message struct {
	kind kind
	// answer with which the helper has thawed; 0 if there was none in time.
	answer kind
	// errno of the freeze or the thaw.
	errno syscall.Errno
	// took is the time from the beginning of the freeze, up to the end of the freeze or the thaw.
	took time.Duration
	// faults are the page faults of the helper between freeze and thaw.
	faults int64
	// released means that the run or the guard thawed, and not the helper. It is not sent.
	released bool
}

// isThaw reports whether the helper says that the file system is writable again. It is not frozen for a thaw that the kernel
// calls invalid.
func (m message) isThaw() bool {
	return m.kind == msgThawed && (m.errno == 0 || errors.Is(m.errno, syscall.EINVAL))
}

// late says why the copy may not have been accepted while the file system was frozen; empty if it was.
func (m message) late() string {
	switch {
	case m.released:
		return "the helper of the freeze was killed or stopped, and the file system was thawed without it"
	case m.errno != 0:
		return "another program thawed the file system before the answer"
	case m.answer == msgRefused:
		return "the copy was not accepted"
	case m.answer != msgAccepted:
		return fmt.Sprintf("no answer came within %v", answerLimit)
	}
	return ""
}

// Late waits for the cloud's answer, a second at most, and returns why the copy is not accepted; empty if it is.
func Late(ctx context.Context, answers <-chan bool) string {
	m := message{}
	select {
	case yes := <-answers:
		m.answer = msgRefused
		if yes {
			m.answer = msgAccepted
		}
	case <-ctx.Done():
		m.answer = msgRefused
	case <-time.After(answerLimit):
	}
	return m.late()
}

const messageSize = 32

type packet [messageSize]byte

// mark is the first byte of a packet. Any other packet is text: the error of a program that could not start.
const mark = 0xF5

func (m message) encode(p *packet) {
	p[0], p[1], p[2] = mark, byte(m.kind), byte(m.answer)
	binary.LittleEndian.PutUint64(p[8:], uint64(m.errno))
	binary.LittleEndian.PutUint64(p[16:], uint64(m.took))   //nolint:gosec // never negative
	binary.LittleEndian.PutUint64(p[24:], uint64(m.faults)) //nolint:gosec // never negative
}

// decode reads a packet; false for text.
func decode(b []byte) (m message, isMessage bool) {
	if len(b) != messageSize || b[0] != mark {
		return m, false
	}
	return message{
		kind: kind(b[1]), answer: kind(b[2]),
		errno:  syscall.Errno(binary.LittleEndian.Uint64(b[8:])),
		took:   time.Duration(binary.LittleEndian.Uint64(b[16:])), //nolint:gosec // as encoded
		faults: int64(binary.LittleEndian.Uint64(b[24:])),         //nolint:gosec // as encoded
	}, true
}

const (
	// answerLimit is how long the file system stays frozen without an answer.
	answerLimit = time.Second
	// freezeLimit is how long the file system is frozen at the most, with the time that the kernel takes to freeze it.
	freezeLimit = 5 * time.Second
)

// thawAt returns when a freeze without an answer ends. Writers stand from the beginning of the freeze on.
func thawAt(begun, frozen time.Time) time.Time {
	at, last := frozen.Add(answerLimit), begun.Add(freezeLimit)
	if last.Before(at) {
		return last
	}
	return at
}
