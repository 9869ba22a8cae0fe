package trial

import (
	"fmt"
	"strings"
	"time"
)

// blame begins the reason of a quarantine by a trial.
const blame = "trial: "

// longest is the longest tag value that every cloud allows, in bytes. Source: Azure's limit for tags.
const longest = 256

// Mark returns a verdict as the value of cloud.TagTrial.
func Mark(result Result, at time.Time) string {
	return fmt.Sprintf("%s %s", result, at.UTC().Format(time.RFC3339))
}

// Read parses a mark. A malformed mark means that the version was not tried: empty and zero.
func Read(mark string) (result Result, at time.Time) {
	word, when, _ := strings.Cut(mark, " ")
	at, err := time.Parse(time.RFC3339, when)
	if result = Result(word); err != nil || result != Passed && result != Failed {
		return "", time.Time{}
	}
	return result, at
}

// Blame returns the quarantine reason of a failed version, as the value of cloud.TagQuarantined.
func Blame(message string) string {
	text := blame + message
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "")
	}
	return text
}

// Blamed returns the message in a quarantine by a trial; ok is false for any other quarantine.
func Blamed(quarantine string) (message string, ok bool) { return strings.CutPrefix(quarantine, blame) }

// Whole returns the whole message of a failed version, if the tag has its beginning; else the message of the tag.
func Whole(blamed, recorded string) string {
	if blamed != "" && strings.HasPrefix(recorded, blamed) {
		return recorded
	}
	return blamed
}

// Unseen returns the verdict after failed looks in a row. why is the error of the last look. Earlier facts are not
// judged again.
func Unseen(looks int, why string) Verdict {
	if looks >= mostUnread {
		return Verdict{Result: Inconclusive, Message: fmt.Sprintf("the last %d observations of the trial failed: %s", looks, why)}
	}
	return Verdict{Result: Pending, Message: "the trial node could not be observed: " + why}
}
