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

	"github.com/kamino-dev/kamino/internal/cli/print"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/drive"
	"github.com/kamino-dev/kamino/internal/process"
)

// Factory is the world that the command works in. Main makes the real one; tests put parts of their own in.
type Factory struct {
	Out, Err io.Writer
	// In is where a person answers, and Asks tells whether one sits there.
	In     io.Reader
	Asks   func() bool
	Getenv func(string) string
	Now    func() time.Time
	// Window is the size of the terminal that Err is; zero if it is none.
	Window func() (width, height int)

	// LimitRuntime, if set, makes the process as cheap as one can be that waits nearly all the time.
	LimitRuntime func()

	// Connect makes the clients for the cluster. It sends nothing.
	Connect func(o *Options) (*cluster.Connection, error)
	// Cloud makes the provider that the options name.
	Cloud func(ctx context.Context, o *Options) (cloud.Provider, error)
	// Engine makes what carries captures out.
	Engine func(c *cluster.Connection, provider cloud.Provider, o *Options) drive.Engine
}

// NewFactory is the real world.
func NewFactory() *Factory {
	return &Factory{
		Out: os.Stdout, Err: os.Stderr, In: os.Stdin, Getenv: os.Getenv, Now: time.Now,
		Asks: func() bool { return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())) },
		Window: func() (int, int) {
			fd := int(os.Stderr.Fd())
			if !term.IsTerminal(fd) {
				return 0, 0
			}
			width, height, err := term.GetSize(fd)
			if err != nil || width == 0 || height == 0 {
				return 80, 24 // a terminal that does not tell, such as one over a serial line
			}
			return width, height
		},
		LimitRuntime: process.LimitRuntime,
		Connect:      connect,
		Cloud:        newCloud,
		Engine:       newEngine,
	}
}

// asks tells whether somebody sits there who can be asked.
func (f *Factory) asks() bool { return f.Asks != nil && f.Asks() }

// agreed asks whoever sits there whether to go on with what is said. Scripts are asked nothing, and go on.
func (f *Factory) agreed(said string) bool {
	if !f.asks() {
		return true
	}
	_, _ = fmt.Fprintf(f.Err, "%s\nGo on? [y/N] ", said)
	answer := f.answer()
	return answer == "y" || answer == "yes"
}

// chosen asks whoever sits there for one of the words. It is empty for scripts, and for any other answer.
func (f *Factory) chosen(said string, words ...string) string {
	if !f.asks() {
		return ""
	}
	_, _ = fmt.Fprintf(f.Err, "%s\nWhich? [%s] ", said, strings.Join(words, "/"))
	if answer := f.answer(); slices.Contains(words, answer) {
		return answer
	}
	return ""
}

// answer reads a line and no further: another question may follow.
func (f *Factory) answer() string {
	var line []byte
	for one := make([]byte, 1); ; {
		n, err := f.In.Read(one)
		if line = append(line, one[:n]...); err != nil || n > 0 && one[0] == '\n' {
			return strings.ToLower(strings.TrimSpace(string(line)))
		}
	}
}

// terminal tells whether Err is a terminal whose cursor can be moved.
func (f *Factory) terminal() bool {
	width, _ := f.Window()
	return width > 0 && f.Getenv("TERM") != "dumb"
}

// style is what the terminal can show. See https://no-color.org for NO_COLOR.
func (f *Factory) style() print.Style {
	locale := f.Getenv("LC_ALL")
	for _, name := range []string{"LC_CTYPE", "LANG"} {
		if locale == "" {
			locale = f.Getenv(name)
		}
	}
	locale = strings.ToUpper(locale)
	return print.Style{
		Color:   f.terminal() && f.Getenv("NO_COLOR") == "",
		Unicode: strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8"),
	}
}
