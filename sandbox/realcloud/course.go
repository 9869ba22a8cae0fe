package realcloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Course is a run of the program in an account: what does not differ between clouds.
type Course struct {
	*Account
	cloud *Cloud
	// Run and End are the values of the tags. After End only removals are sent.
	Run  string
	End  time.Time
	Out  io.Writer
	Log  *Report
	in   Session
	wire *wire
}

// Tags of everything that a run makes.
const (
	// TagRun has the name of the run as its value.
	TagRun = "kamino-verify"
	// TagEnd has the time after which everything of the run may be removed.
	TagEnd = "kamino-verify-end"
)

// LookEvery is the pause between two looks at unfinished work, LookFor how long a look may go on by default.
const (
	LookEvery = 5 * time.Second
	LookFor   = 15 * time.Minute
	// Settled is longer than a change may take until all answers show it.
	Settled = time.Minute
	// Quiet is how long a check waits for what should not happen.
	Quiet = 3 * time.Minute
)

// Open makes a run's course and session. run is empty for a look at all runs.
func Open(cloud *Cloud, in *Account, out io.Writer, run string, end time.Time) (*Course, error) {
	c := &Course{Account: in, cloud: cloud, Run: run, End: end.UTC().Truncate(time.Second), Out: out,
		wire: &wire{Account: in, start: in.Now(), most: cloud.MaxCalls}}
	c.Log = newReport(cloud, run, in.Region, in.Now())
	c.Log.Simulated = in.Simulated
	var err error
	if c.in, err = in.Open(c); err != nil {
		return nil, err
	}
	c.wire.problem = c.in.Problem
	return c, nil
}

// Session is what the course does in its cloud.
func (c *Course) Session() Session { return c.in }

// Name of what a run makes once.
func (c *Course) Name() string { return TagRun + "-" + c.Run }

// Tags of everything that the run makes.
func (c *Course) Tags() map[string]string {
	return map[string]string{TagRun: c.Run, TagEnd: c.End.Format(time.RFC3339)}
}

// ErrNever is the end of a look that saw nothing in its time.
var ErrNever = errors.New("not seen")

// Until looks until done, at most for a while.
func (c *Course) Until(ctx context.Context, what string, most time.Duration, done func() (bool, error)) error {
	deadline := c.Now().Add(most)
	for {
		is, err := done()
		if err != nil || is {
			return err
		}
		if !c.Now().Before(deadline) {
			return fmt.Errorf("%s: %w in %s", what, ErrNever, most)
		}
		if err := c.Wait(ctx, LookEvery); err != nil {
			return err
		}
	}
}

// Watch looks for a whole while, or until done.
func (c *Course) Watch(ctx context.Context, most time.Duration, done func() (bool, error)) (bool, error) {
	err := c.Until(ctx, "", most, done)
	if errors.Is(err, ErrNever) {
		return false, nil
	}
	return err == nil, err
}

// Appears measures how long something new is not shown, and fails if it never is.
func (c *Course) Appears(ctx context.Context, kind string, look func() (bool, error)) error {
	began := c.Now()
	err := c.Until(ctx, "the new "+kind, 2*Settled, func() (bool, error) {
		is, err := look()
		if err != nil && strings.Contains(c.in.Code(err), "NotFound") {
			return false, nil
		}
		return is, err
	})
	if err == nil {
		c.Measure("until shown: "+kind, c.Now().Sub(began))
	}
	return err
}

// Measure notes a time that was measured.
func (c *Course) Measure(what string, took time.Duration) {
	c.Log.Measured = append(c.Log.Measured, Measure{what, round(took)})
}

// Retry reports whether an SDK may repeat a call after an error: not what the guard refused, nor after the end of the run.
func Retry(err error) bool { return !IsRefusal(err) && !errors.Is(err, context.Canceled) }

// tryAll makes the base and tries what the report does not have yet. save stores the report after each check.
func (c *Course) tryAll(ctx context.Context, save func() error) error {
	if err := c.in.Base(ctx); err != nil {
		return err
	}
	for n, a := range c.cloud.Assumptions {
		if c.Log.has(a.Name) {
			continue
		}
		began := c.Now()
		seen, err := c.in.Try(ctx, a.Name)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if IsRefusal(err) {
			return err // of the guard: an end or a limit, not an answer of the cloud
		}
		result := judge(a, seen, err)
		result.Seconds = round(c.Now().Sub(began))
		c.Log.Checks = append(c.Log.Checks, result)
		fmt.Fprintf(c.Out, "%2d/%d %-20s %-10s %s\n", n+1, len(c.cloud.Assumptions), a.Name, result.Outcome, result.Seen)
		if err := save(); err != nil {
			return err
		}
	}
	c.Log.finish(c.Now(), c.wire)
	return save()
}

// judge compares what a check saw with what was expected.
func judge(a Assumption, seen string, err error) Check {
	out := Check{Name: a.Name, Sentence: a.Sentence, Expected: a.Expected, Seen: seen, Outcome: Differs}
	switch {
	case err != nil:
		out.Seen, out.Outcome = anonymous(err.Error()), Unclear
	case seen == a.Expected:
		out.Outcome = AsAssumed
	}
	return out
}

// Limits of clean: the pause between two rounds, the rounds, and how many rounds must see nothing. What was made just before a kill
// is not shown yet.
const (
	roundEvery  = 20 * time.Second
	maxRounds   = 90
	emptyRounds = 4
)

// Run is a run that the cloud knows by its tags.
type Run struct {
	Name string
	End  time.Time
}

// RunsOf makes runs of the values of the two tags. A time that cannot be read is zero, and a later one of the run replaces it.
func RunsOf(tags map[string][]string) (all []Run) {
	for name, ends := range tags {
		r := Run{Name: name}
		for _, end := range ends {
			if at, err := time.Parse(time.RFC3339, end); err == nil {
				r.End = at
			}
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Run) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// findRuns looks for runs for a while, because the cloud may not show yet what a killed run has just made.
func (c *Course) findRuns(ctx context.Context) (all []Run, err error) {
	_, err = c.Watch(ctx, emptyRounds*roundEvery, func() (bool, error) {
		all, err = c.in.Runs(ctx)
		return len(all) > 0, err
	})
	return all, err
}

// clean removes everything with the tag of the run, and returns when nothing is shown any more.
func (c *Course) clean(ctx context.Context) error {
	empty := 0
	var last error
	for range maxRounds {
		n, err := c.in.Sweep(ctx)
		switch last = err; {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case IsRefusal(err):
			return err
		case err == nil && n == 0:
			empty++
		default:
			empty = 0
		}
		if empty == emptyRounds {
			fmt.Fprintf(c.Out, "nothing is left with the tag %s=%s\n", TagRun, c.Run)
			return nil
		}
		if err := c.Wait(ctx, roundEvery); err != nil {
			return err
		}
	}
	return errors.Join(fmt.Errorf("something with the tag %s=%s is left after %d rounds; run `verify-cloud clean --cloud %s --run %s` again", TagRun, c.Run,
		maxRounds, c.cloud.Name, c.Run), last)
}
