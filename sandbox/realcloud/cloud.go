package realcloud

import (
	"context"
	"net/http"
	"time"
)

// Cloud is a kind of cloud that the program has checks for.
type Cloud struct {
	// Name is the value of --cloud, and Page the page of the docs with the assumptions.
	Name, Page string
	// Place says what --region names.
	Place       string
	Assumptions []Assumption
	// Unchecked are the assumptions that no run tries, with the reason.
	Unchecked map[string]string
	Price     Price
	// MaxCalls is the limit of requests of a run.
	MaxCalls int
	// Permissions are those of all calls of the program.
	Permissions []string
	// Connect opens the account of the user's environment.
	Connect func(ctx context.Context, region string) (*Account, error)
	// Simulate starts the simulated cloud, for a user with a policy of the form of Policy; empty for one who may do everything.
	Simulate func(policy string) (*Account, func(), error)
	// Policy is what a run needs, as a file for the cloud.
	Policy func(run string) ([]byte, error)
}

// Assumption is a sentence of the docs that a run tries.
type Assumption struct{ Name, Sentence, Expected string }

// Transport sends a request. Course implements it for the clients of the clouds' SDKs.
type Transport interface {
	Do(r *http.Request) (*http.Response, error)
}

// Account is where runs happen: the real cloud in real time, or the simulated one.
type Account struct {
	Region string
	// Simulated: the cloud is the sandbox's.
	Simulated bool
	// Transport sends to the cloud, and nothing but the wire uses it.
	Transport Transport
	Now       func() time.Time
	Wait      func(context.Context, time.Duration) error
	// Intercept runs before and after each call; an error ends the call. nil for nothing.
	Intercept func(ctx context.Context, r Request, after bool) error
	// Saw receives each call that was answered; nil for nothing.
	Saw func(Call)
	// Left lists what a simulated account has besides what was there from the start; nil on a real cloud.
	Left func() []string
	// Open makes the clients of a run. All of them send through the course.
	Open func(*Course) (Session, error)
}

// Effect is what a call does to the account.
type Effect int

// Effects of calls.
const (
	Reads Effect = iota
	Creates
	Changes
	// Removes is a change that a run may also make after its end.
	Removes
)

// Request is a request that the program has.
type Request struct {
	Action, Permission string
	Effect             Effect
	// Form is the request for the report, and Detail what Admit needs.
	Form, Detail any
	// Keep shortens an answer for the report; nil keeps all of it.
	Keep func(string) string
}

// Session is a run in a cloud. This is all that differs between clouds.
type Session interface {
	// Who is the account that pays.
	Who(ctx context.Context) (string, error)
	// Base makes what all checks need, or finds it.
	Base(ctx context.Context) error
	// Try tries an assumption, and returns what it saw, without IDs and times.
	Try(ctx context.Context, check string) (seen string, err error)
	// Runs are the runs whose tag the cloud shows on anything that exists.
	Runs(ctx context.Context) ([]Run, error)
	// Sweep asks for the removal of what has the tag of the run, and returns how much still exists.
	Sweep(ctx context.Context) (left int, err error)

	// Identify finds a request among those that the program has.
	Identify(r *http.Request, body []byte) (Request, error)
	// Admit refuses a change outside the tag of the run, and what costs more than the price says.
	Admit(ctx context.Context, r Request) error
	// Problem reads the code and the text of a refusal, and Code the code of the SDK's error; empty for other errors.
	Problem(answer []byte) (code, text string)
	Code(err error) string
}

// Real is an account in real time.
func Real(a *Account) *Account {
	a.Now = time.Now
	a.Wait = func(ctx context.Context, d time.Duration) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return a
}
