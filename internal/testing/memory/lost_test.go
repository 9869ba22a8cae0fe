package memory_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestEachCallIsLostOnceInEachWay, and a process that ends goes on with the next call.
func TestEachCallIsLostOnceInEachWay(t *testing.T) {
	var mu sync.Mutex
	played := map[string]int{}
	course := func(t *testing.T, s *memory.Schedule) {
		done := map[string]bool{}
		for _, call := range []string{"reserve", "cordon", "save"} {
			for range 3 {
				var err error
				crashed := memory.RunUntilCrash(func() {
					err = s.Next(call).Apply(func() error {
						done[call] = true
						return nil
					})
				})
				if !crashed && err == nil {
					break
				}
			}
			if !done[call] {
				t.Errorf("%s was not done", call)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		played[fmt.Sprint(s.Lost())]++
	}
	t.Run("all", func(t *testing.T) { memory.Courses{Play: course, Least: 3}.LoseEach(t) })
	for n, call := range []string{"reserve", "cordon", "save"} {
		for _, loss := range memory.Losses() {
			text := fmt.Sprintf("[call %d (%s): %s]", n, call, loss.Name)
			if played[text] != 1 {
				t.Errorf("%s was played %d times", text, played[text])
			}
			delete(played, text)
		}
	}
	if len(played) != 1 || played["[]"] != 1 {
		t.Errorf("further courses: %v", played)
	}
	t.Run("sparse", func(t *testing.T) {
		memory.Courses{Play: course, Sparse: true, Choose: func([]string) []int { return []int{0, 2} }}.LoseEach(t)
	})
	if len(played) != 3 || played["[call 2 (save): crash before its effect]"] != 1 {
		t.Errorf("sparse courses: %v", played)
	}
}

// TestTheFateOfACall: an effect is done or not, and its answer arrives, is lost, or the process ends.
func TestTheFateOfACall(t *testing.T) {
	own := errors.New("own")
	fates := []memory.Outcome{memory.Pass()}
	for _, loss := range memory.Losses() {
		fates = append(fates, loss.Outcome)
	}
	var got []string
	for _, fate := range fates {
		done, err := false, error(nil)
		crashed := memory.RunUntilCrash(func() { err = fate.Apply(func() error { done = true; return own }) })
		got = append(got, fmt.Sprint(done, crashed, errors.Is(err, own), err != nil))
	}
	want := []string{"true false true true", "false false false true", "true false false true", "false true false false", "true true false false"}
	if !slices.Equal(got, want) {
		t.Errorf("done, crashed, own error, error: %v, want %v", got, want)
	}
}

// TestAScheduleWithoutItsStatus: a loss that wipes says so once it has happened, and until the next loss.
func TestAScheduleWithoutItsStatus(t *testing.T) {
	s := memory.NewSchedule(map[int]memory.Loss{1: {Name: "crash", Outcome: memory.CrashBefore(), Wipes: true}, 3: memory.Losses()[2]})
	var wiped []bool
	calls := []string{"first", "second", "third", "fourth"}
	for _, call := range calls {
		s.Next(call)
		wiped = append(wiped, s.IsWiped())
	}
	if !slices.Equal(wiped, []bool{false, true, true, false}) || !slices.Equal(s.Calls(), calls) || len(s.Lost()) != 2 {
		t.Errorf("wiped %v, after %v, of which %v are lost", wiped, s.Calls(), s.Lost())
	}
}
