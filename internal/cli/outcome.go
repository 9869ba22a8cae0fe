package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/runner"
)

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

// limited ends the context with runner.ErrTimeout after a time; never if timeout is 0. All requests of a verb use the
// context, so the command waits for a busy API server as long as --timeout permits (cluster.Connect).
func limited(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, timeout, runner.ErrTimeout)
}

// orCutShort returns the error of work under such a context. After the timeout, the error says how to continue.
func orCutShort(ctx context.Context, err error, goOn string) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return cutShort(context.Cause(ctx), ". "+goOn)
}

// follow shows the capture until its end, and turns the result into an exit code.
func (s *session) follow(ctx context.Context, p *v1alpha1.Prototype, format output.Format) error {
	fl := s.follower(p)
	last, err := fl.Run(ctx)
	if err != nil {
		return s.stopped(last, err)
	}
	if format != output.Text {
		if err := print.Prototype(s.Out, format, last, s.Now()); err != nil {
			return err
		}
	}
	if !runner.Succeeded(last) {
		return s.failed(last)
	}
	if format != output.Text {
		return nil
	}
	return print.Success(s.Out, last, s.Now())
}

// failed is the error of a capture without a new recipe. A capture that was refused before any change is a refusal.
func (f *Factory) failed(p *v1alpha1.Prototype) error {
	touched := runner.Touched(p)
	code := ExitFailed
	if !touched {
		code = ExitRefused
		if p.Status.Failure != nil && permissionReason(p.Status.Failure.Reason) {
			code = ExitNotAllowed
		}
	}
	return &failure{Code: code, Err: errors.New(print.Failure(p, touched, f.Now()))}
}

// stopped is the error of a command that stopped following before the end of the capture.
func (s *session) stopped(p *v1alpha1.Prototype, cause error) error {
	goOn := print.GoOn(p, s.Now())
	if errors.Is(cause, runner.ErrGone) {
		return &failure{Code: ExitFailed, Err: fmt.Errorf("prototype %s was deleted during the capture: "+
			"%s, and no image was promoted", p.Name, donorNow(context.Background(), s, p))}
	}
	if errors.Is(cause, errInterrupted) || errors.Is(cause, runner.ErrTimeout) {
		return cutShort(cause, ". "+goOn)
	}
	return cutShort(cause, ".\n"+goOn)
}

// cutShort is the error of a command that stopped before the end of its work, with the way to continue.
func cutShort(cause error, goOn string) error {
	switch {
	case errors.Is(cause, errInterrupted), errors.Is(cause, runner.ErrTimeout):
		return &failure{Code: ExitInterrupted, Err: fmt.Errorf("%w%s", cause, goOn)}
	case errors.Is(cause, runner.ErrAway):
		return &failure{Code: ExitUnreachable, Err: fmt.Errorf("%w%s", cause, goOn)}
	}
	return &failure{Code: exitCode(cause), Err: errors.New(explain(cause) + goOn)}
}

func asCloudError(err error, to **cloud.Error) bool { return errors.As(err, to) }
