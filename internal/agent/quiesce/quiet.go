package quiesce

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// signs are what a look at a running host shows of programs that change packages or pull images.
type signs struct {
	// now is the time of the look.
	now   time.Time
	locks []lock
	// incomplete are dpkg's packages between two states, and interrupted means that a killed dpkg left its journal.
	incomplete  []string
	interrupted bool
	pulls       []pull
}

// lock is a lock that a program holds.
type lock struct {
	// path of the file, and what the lock means.
	path, what string
	// holder is the program's name and process; empty if not visible.
	holder string
	// packages means that dpkg's list of packages changes under the lock.
	packages bool
}

// pull is a trace of an image that a runtime pulls.
type pull struct {
	runtime, path string
	// changed is the last change. The zero time means that the trace itself says that the pull is open.
	changed time.Time
}

// pullIdle is the time without a change after which a download counts as given up. A runtime drops such a download, and so
// does the cleaning of a copy.
const pullIdle = time.Minute

// maxNamed is the number of packages in a sentence.
const maxNamed = 5

// busy returns a sentence for each thing that the node is busy with; none for a quiet node.
func (s signs) busy() (sentences []string) {
	say := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(sentences, text) {
			sentences = append(sentences, text)
		}
	}
	working := false
	for _, l := range s.locks {
		working = working || l.packages
		say("%s holds /%s: %s", cmp.Or(l.holder, "a program"), l.path, l.what)
	}
	// The lock explains packages between two states. Without a lock no program completes them.
	if !working {
		if s.interrupted {
			say("dpkg was interrupted, and no program repairs it: run dpkg --configure -a")
		}
		if n := len(s.incomplete); n > 0 {
			named := strings.Join(s.incomplete[:min(n, maxNamed)], ", ")
			if n > maxNamed {
				named += fmt.Sprintf(" and %d more", n-maxNamed)
			}
			say("packages are not completely installed, and no program completes them: %s. Run dpkg --configure -a", named)
		}
	}
	for _, p := range s.pulls {
		// A time in the future is no reason to call a download given up.
		if p.changed.IsZero() || s.now.Sub(p.changed) < pullIdle {
			say("%s pulls an image: /%s", p.runtime, p.path)
		}
	}
	return sentences
}
