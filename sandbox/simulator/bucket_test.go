package simulator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kamino-dev/kamino/sandbox/clock"
)

func TestBucketRefillsByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Buckets{Clock: clock.Clock{Scale: 10}}
		for want := 2; want >= 0; want-- {
			if left, wait := b.Take("a", 3, 0.5); left != want || wait != 0 {
				t.Fatalf("%d are left, wait %v, want %d and none", left, wait, want)
			}
		}
		if _, wait := b.Take("a", 3, 0.5); wait != 2*time.Second {
			t.Errorf("the next token takes %v, want 2 s at half a token a second", wait)
		}
		if left, _ := b.Take("b", 3, 0.5); left != 2 {
			t.Errorf("another name has %d left, want 2: it has a bucket of its own", left)
		}
		time.Sleep(200 * time.Millisecond) // two simulated seconds
		if left, wait := b.Take("a", 3, 0.5); left != 0 || wait != 0 {
			t.Errorf("%d are left, wait %v, want the one that came meanwhile", left, wait)
		}
		time.Sleep(time.Hour)
		if left, _ := b.Take("a", 3, 0.5); left != 2 {
			t.Errorf("%d are left after an hour, want 2: it holds three", left)
		}
	})
}

func TestCalendarSkipRefillsBucket(t *testing.T) {
	calendar := &clock.Calendar{}
	b := Buckets{Clock: clock.Clock{Calendar: calendar}}
	b.Take("a", 2, 0.001)
	b.Take("a", 2, 0.001)
	if _, wait := b.Take("a", 2, 0.001); wait == 0 {
		t.Fatal("a third token was there of two")
	}
	calendar.Skip(1500 * time.Second)
	if left, wait := b.Take("a", 2, 0.001); left != 0 || wait != 0 {
		t.Errorf("%d are left, wait %v, want the one of 1500 s", left, wait)
	}
}
