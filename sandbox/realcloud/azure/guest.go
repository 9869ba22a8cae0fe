package azure

import (
	_ "embed"
	"strconv"
	"strings"
	"time"
)

// guestData is the customData of the machines: the program of guest.yaml.
//
//go:embed guest.yaml
var guestData string

// mark begins each line of the machines' program on the console.
const mark = "kamino-verify "

// The LUN of a copy that a machine reads, and the LUN of a disk that makes it switch itself off.
const (
	lunRead = 0
	lunOff  = 1
)

// line is what the program of a machine said: "boot" with its values, "copy" with those of a copy, or "off".
type line struct {
	what   string
	values map[string]string
}

// linesOf finds the lines of the program in a console's log.
func linesOf(log string) (all []line) {
	for _, l := range strings.Split(log, "\n") {
		_, rest, is := strings.Cut(strings.TrimSpace(l), mark)
		words := strings.Fields(rest)
		if !is || len(words) == 0 {
			continue
		}
		said := line{words[0], map[string]string{}}
		for _, w := range words[1:] {
			if key, value, is := strings.Cut(w, "="); is {
				said.values[key] = value
			}
		}
		all = append(all, said)
	}
	return all
}

// of are the lines of a kind.
func of(all []line, what string) (some []line) {
	for _, l := range all {
		if l.what == what {
			some = append(some, l)
		}
	}
	return some
}

// time reads a value in milliseconds; zero if it is none.
func (l line) time(key string) time.Time {
	ms, err := strconv.ParseInt(l.values[key], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// keepLines leaves only the program's lines of a log for the report: a log of a machine also has host keys.
func keepLines(log string) string {
	var kept strings.Builder
	kept.WriteString(`<log>`)
	for _, l := range linesOf(log) {
		kept.WriteString("<line>" + l.what)
		for _, key := range []string{"lun", "where", "data", "flushed", "written"} {
			if v, has := l.values[key]; has {
				kept.WriteString(" " + key + "=" + v)
			}
		}
		kept.WriteString("</line>")
	}
	kept.WriteString(`</log>`)
	return kept.String()
}
