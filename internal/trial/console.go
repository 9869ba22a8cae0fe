package trial

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	// maxConsole is the part of a serial console that is read, in bytes.
	maxConsole = 64 << 10
	// maxLines and maxLine limit the lines in the sentence, and the bytes of a line.
	maxLines, maxLine = 5, 200
)

var (
	// escapes are terminal sequences: colors, cursor moves, titles. Source: ECMA-48.
	escapes = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|.)")
	// uptimes are the times of the kernel at the beginning of a line.
	uptimes = regexp.MustCompile(`^\[ *\d+\.\d+\] *`)
	// failures are words of a line that may explain a failed start.
	failures = regexp.MustCompile(`(?i)\b(?:` + strings.Join([]string{
		"fail", "fails", "failed", "failure", "error", "errors", "fatal", "panic", "oops", "segfault", "killed", "corrupt", "corrupted", "corruption",
		"cannot", "can't", "could not", "unable", "refused", "denied", "forbidden", "unauthorized", "timeout", "timed out", "expired", "x509",
		"no such", "not found", "no space", "missing", "unknown", "invalid",
	}, "|") + `)\b`)
	// numbers differ between repeated lines.
	numbers = regexp.MustCompile(`[0-9]+`)
)

// secrets are texts that a sentence must not repeat. Each pattern is replaced as a whole, except the text of its group.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN .*`),
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[a-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`(?i)([a-z0-9_.-]*(?:password|passwd|passphrase|secret|token|credentials?|api-?key|` +
		`access-?key|account-?key|private-?key|authorization|\bsig)["']?\s*[:=]\s*)(?:"[^"]*"|'[^']*'|[^\s"',;&]+)`),
	regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^/\s@]+:[^/\s@]*@`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)*`),
	regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`),
	regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`),
	regexp.MustCompile(`\b[0-9a-fA-F]{40,}\b`),
}

// opaque are long texts of a key's alphabet.
var opaque = regexp.MustCompile(`[A-Za-z0-9+/_=-]{32,}`)

// Console returns the last lines of a serial console that may explain a node's failure; without an error only if the node is
// not Ready. Any program of the node writes to the console, so the text proves nothing.
func Console(text string, unread error, ready bool) string {
	switch {
	case cloud.Is(unread, cloud.Unsupported):
		return ""
	case unread != nil:
		return ". Serial console unread: " + brief(plain(unread.Error()))
	}
	text = text[max(0, len(text)-maxConsole):]
	var found []string
	last := ""
	for _, line := range strings.Split(text, "\n") {
		if line = plain(line); line == "" {
			continue
		}
		last = line
		if failures.MatchString(line) {
			found = append(slices.DeleteFunc(found, func(before string) bool { return isRepeated(before, line) }), line)
		}
	}
	switch {
	case last == "", len(found) == 0 && ready:
		return ""
	case len(found) == 0:
		return ". The serial console has no error, and ends with: " + brief(last)
	}
	found = found[max(0, len(found)-maxLines):]
	for i, line := range found {
		found[i] = brief(line)
	}
	return ". Serial console: " + strings.Join(found, "; ")
}

// plain returns a line of a console without terminal sequences, control characters and times.
func plain(line string) string {
	line = escapes.ReplaceAllString(strings.ToValidUTF8(line, ""), "")
	line = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, line)
	return strings.Join(strings.Fields(uptimes.ReplaceAllString(strings.TrimSpace(line), "")), " ")
}

func isRepeated(before, line string) bool {
	return numbers.ReplaceAllString(before, "0") == numbers.ReplaceAllString(line, "0")
}

// brief hides the secrets of a line, and cuts the line.
func brief(line string) string {
	for _, secret := range secrets {
		line = secret.ReplaceAllString(line, "${1}(hidden)")
	}
	line = opaque.ReplaceAllStringFunc(line, func(text string) string {
		if isKey(text) {
			return "(hidden)"
		}
		return text
	})
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine-len("…")], "") + "…"
	}
	return line
}

// isKey reports whether a long text has the characters of a key: digits, small and capital letters. A path has few digits.
func isKey(text string) bool {
	return strings.ContainsAny(text, "0123456789") && strings.ToLower(text) != text && strings.ToUpper(text) != text &&
		strings.Count(text, "/") < 1+len(text)/16
}
