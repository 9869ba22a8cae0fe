package print

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
