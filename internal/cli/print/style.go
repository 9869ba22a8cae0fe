package print

// Colours by what they mean. A terminal that shows none loses nothing: every state has a sign or a word too.
const (
	reset  = "\x1b[0m"
	green  = "\x1b[32m"
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	dim    = "\x1b[2m"
	bold   = "\x1b[1m"
)

// Style says what a terminal can show.
type Style struct {
	// Color allows escape sequences for colours; without it only the cursor is moved.
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

// signs of a step: done, failed, and the frames of one that runs.
func (s Style) signs() (done, failed string, running []string) {
	if s.Unicode {
		return "✓", "✗", []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}
	}
	return "+", "x", []string{"|", "/", "-", `\`}
}
