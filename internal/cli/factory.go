package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/kamino-dev/kamino/internal/cli/help"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/process"
	"github.com/kamino-dev/kamino/internal/runner"
)

// Factory is the environment of the command. Main builds the real environment; tests replace parts.
type Factory struct {
	// CalledAs is the name of the command in its help.
	CalledAs string

	Out, Err io.Writer
	// In reads the user's answers, and Asks reports whether a user is at the terminal.
	In     io.Reader
	Asks   func() bool
	Getenv func(string) string
	Now    func() time.Time
	// Window is the size of Err's terminal; zero without a terminal.
	Window func() (width, height int)
	// Redraws, if set, reports whether Out is a terminal.
	Redraws func() bool

	// LimitRuntime, if set, reduces the resources of a process that mostly waits.
	LimitRuntime func()

	// Connect builds the clients for the cluster without a request.
	Connect func(o *Options) (*cluster.Connection, error)
	// Cloud builds the provider for the options.
	Cloud func(ctx context.Context, o *Options) (cloud.Provider, error)
	// Engine builds the capture engine.
	Engine func(c *cluster.Connection, provider cloud.Provider, o *Options) runner.Engine
}

// NewFactory returns the real environment.
func NewFactory() *Factory {
	return &Factory{
		CalledAs: help.CalledAs(os.Args[0]),
		Out:      os.Stdout, Err: os.Stderr, In: os.Stdin, Getenv: os.Getenv, Now: time.Now,
		Asks: func() bool { return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())) },
		Window: func() (int, int) {
			fd := int(os.Stderr.Fd())
			if !term.IsTerminal(fd) {
				return 0, 0
			}
			width, height, err := term.GetSize(fd)
			if err != nil || width == 0 || height == 0 {
				return 80, 24 // a terminal without a size, such as a serial line
			}
			return width, height
		},
		Redraws:      func() bool { return term.IsTerminal(int(os.Stdout.Fd())) },
		LimitRuntime: process.LimitRuntime,
		Connect:      connect,
		Cloud:        newCloud,
		Engine:       newEngine,
	}
}

// say writes sentences for the user.
func say(to io.Writer, format string, args ...any) {
	_ = output.Prose(to, fmt.Sprintf(format, args...))
}

// asks reports whether a user can answer questions.
func (f *Factory) asks() bool { return f.Asks != nil && f.Asks() }

// agreed asks the user whether to continue. Scripts get no question, and continue.
func (f *Factory) agreed(message string) bool {
	if !f.asks() {
		return true
	}
	say(f.Err, "%s\nGo on? [y/N] ", message)
	answer := f.answer()
	return answer == "y" || answer == "yes"
}

// chosen asks the user for a word. Empty for scripts and for any other answer.
func (f *Factory) chosen(message string, words ...string) string {
	if !f.asks() {
		return ""
	}
	say(f.Err, "%s\nWhich? [%s] ", message, strings.Join(words, "/"))
	if answer := f.answer(); slices.Contains(words, answer) {
		return answer
	}
	return ""
}

// answer reads exactly one line: another question may follow.
func (f *Factory) answer() string {
	var line []byte
	for one := make([]byte, 1); ; {
		n, err := f.In.Read(one)
		if line = append(line, one[:n]...); err != nil || n > 0 && one[0] == '\n' {
			return strings.ToLower(strings.TrimSpace(string(line)))
		}
	}
}

// terminal reports whether Err is a terminal with a movable cursor.
func (f *Factory) terminal() bool {
	width, _ := f.Window()
	return width > 0 && f.Getenv("TERM") != "dumb"
}

// style is the capability of the terminal.
func (f *Factory) style() print.Style { return print.StyleOf(f.terminal(), f.Getenv) }
