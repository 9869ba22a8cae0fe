package print

import "strings"

// Colours by meaning. Every state also has a sign or a word, for terminals without colours.
const (
	reset  = "\x1b[0m"
	green  = "\x1b[32m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	dim    = "\x1b[2m"
	bold   = "\x1b[1m"
)

// Style holds the abilities of a terminal.
type Style struct {
	// Color allows escape sequences for colours; otherwise only cursor movements are allowed.
	Color bool
	// Unicode allows signs beyond ASCII.
	Unicode bool
}

// StyleOf is the style for a terminal. See https://no-color.org for NO_COLOR.
func StyleOf(terminal bool, getenv func(string) string) Style {
	locale := getenv("LC_ALL")
	for _, name := range []string{"LC_CTYPE", "LANG"} {
		if locale == "" {
			locale = getenv(name)
		}
	}
	locale = strings.ToUpper(locale)
	return Style{
		Color:   terminal && getenv("NO_COLOR") == "",
		Unicode: strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8"),
	}
}

func (s Style) paint(color, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return color + text + reset
}

// signs of a step: done, failed, and the frames of a running step.
func (s Style) signs() (done, failed string, running []string) {
	if s.Unicode {
		return "✓", "✗", []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}
	}
	return "+", "x", []string{"|", "/", "-", `\`}
}
