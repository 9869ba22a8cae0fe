package quiesce

import (
	"syscall"
	"testing"
	"time"
)

func TestMessages(t *testing.T) {
	for _, want := range []message{
		{kind: msgReady},
		{kind: msgFailed, errno: syscall.EOPNOTSUPP},
		{kind: msgFrozen, took: 2 * time.Millisecond},
		{kind: msgThawed, answer: msgAccepted, errno: syscall.EINVAL, took: time.Hour, faults: 7},
	} {
		var p packet
		want.encode(&p)
		if got, isMessage := decode(p[:]); !isMessage || got != want {
			t.Errorf("got %+v (%t), want %+v", got, isMessage, want)
		}
	}
	for _, text := range []string{"", "env: '/proc/1/exe': Permission denied\n", "a text that has just the size of it"} {
		if got, isMessage := decode([]byte(text)); isMessage {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

// The answer has a second, and the freeze five: a file system that freezes slowly leaves less time for the answer.
func TestThawAt(t *testing.T) {
	begun := time.Unix(1800000000, 0)
	for freezing, want := range map[time.Duration]time.Duration{
		0: time.Second, 100 * time.Millisecond: 1100 * time.Millisecond, 4 * time.Second: 5 * time.Second, 4500 * time.Millisecond: 5 * time.Second, time.Minute: 5 * time.Second,
	} {
		if got := thawAt(begun, begun.Add(freezing)).Sub(begun); got != want {
			t.Errorf("frozen after %v: thawed after %v, want %v", freezing, got, want)
		}
	}
}

// Only an answer that came before the thaw, which the helper itself made, is in time.
func TestLate(t *testing.T) {
	for name, test := range map[string]struct {
		m      message
		inTime bool
	}{
		"accepted":               {message{kind: msgThawed, answer: msgAccepted}, true},
		"refused":                {message{kind: msgThawed, answer: msgRefused}, false},
		"no answer":              {message{kind: msgThawed}, false},
		"thawed by another":      {message{kind: msgThawed, answer: msgAccepted, errno: syscall.EINVAL}, false},
		"not thawed":             {message{kind: msgThawed, answer: msgAccepted, errno: syscall.EIO}, false},
		"thawed by the run":      {message{kind: msgThawed, released: true}, false},
		"thawed late by the run": {message{kind: msgThawed, answer: msgAccepted, released: true}, false},
	} {
		if why := test.m.late(); (why == "") != test.inTime {
			t.Errorf("%s: %q", name, why)
		}
	}
}
