package trial

import (
	"fmt"
	"strings"
	"time"
)

// blame begins the reason of a quarantine that a trial ordered.
const blame = "trial: "

// longest is the longest value of a tag that every cloud takes. Source: Azure's limit for tags.
const longest = 256

// Mark is a verdict as cloud.TagTrial carries it.
func Mark(result Result, at time.Time) string {
	return fmt.Sprintf("%s %s", result, at.UTC().Format(time.RFC3339))
}

// Read a mark. Of what nobody has written so, nothing is known: the version was not tried.
func Read(mark string) (result Result, at time.Time) {
	word, when, _ := strings.Cut(mark, " ")
	at, err := time.Parse(time.RFC3339, when)
	if result = Result(word); err != nil || result != Passed && result != Failed {
		return "", time.Time{}
	}
	return result, at
}

// Blame is why a version that has failed is quarantined, as cloud.TagQuarantined carries it.
func Blame(message string) string {
	text := blame + message
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "")
	}
	return text
}

// Blamed is the message of a quarantine that a trial ordered; ok tells whether one did.
func Blamed(quarantine string) (message string, ok bool) { return strings.CutPrefix(quarantine, blame) }

// Unseen is what a trial comes to when looks in a row have failed, the last one for that reason: nothing that was seen
// before is judged again.
func Unseen(looks int, why string) Verdict {
	if looks >= mostUnread {
		return Verdict{Result: Inconclusive, Message: fmt.Sprintf("the last %d looks at the trial failed: %s", looks, why)}
	}
	return Verdict{Result: Pending, Message: "the trial node could not be looked at: " + why}
}
