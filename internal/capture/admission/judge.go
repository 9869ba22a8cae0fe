package admission

import (
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Verdict is the result of a case.
type Verdict struct {
	// Refusals are all known reasons against the capture, in the order of display.
	Refusals []cloud.Refusal
	// Unread are the errors of looks, each once. Without a refusal, Unread also prevents the capture.
	Unread []error
}

// Admitted reports that the capture may begin.
func (v Verdict) Admitted() bool { return len(v.Refusals)+len(v.Unread) == 0 }

// Err is the error that prevents a decision; nil if a decision is possible.
func (v Verdict) Err() error {
	if len(v.Refusals) > 0 {
		return nil
	}
	return v.Trouble()
}

// Trouble joins all errors of looks; nil without an error.
func (v Verdict) Trouble() error {
	switch len(v.Unread) {
	case 0:
		return nil
	case 1:
		return v.Unread[0]
	}
	return readErrors(v.Unread)
}

// readErrors joins errors of looks to one sentence.
type readErrors []error

func (u readErrors) Error() string {
	sentences := make([]string, len(u))
	for i, err := range u {
		sentences[i] = err.Error()
	}
	return strings.Join(sentences, "; ")
}

func (u readErrors) Unwrap() []error { return u }

// questions, in the order of display: the decision, the donor, the cluster, the cloud. Each question returns refusals, an
// error of a look, or nothing.
var questions = []func(*Case) ([]cloud.Refusal, error){
	version, clock, profile, foreign, Image, others, donor, pods, donorClock, lineage,
	installation, RulesOf, customData, force, preflight, recipe, images, turn,
}

// brief are the questions after the look at the donor's disk.
var brief = []func(*Case) ([]cloud.Refusal, error){version, clock, profile, foreign, Image, others, donor, pods, turn}

// copied are the questions if the donor's disk is copied in use. They are also about the workshop: what a next node of the pool needs.
// Only a pioneer is asked about its absence and its pods.
var copied = []func(*Case) ([]cloud.Refusal, error){
	version, clock, foreign, Image, others, donor, pods, donorClock, lineage,
	installation, copyRight, RulesOf, customData, force, canCopy, preflight, recipe, images, joining, turn,
}

// copiedBrief are the questions after the look at the disk of such a donor.
var copiedBrief = []func(*Case) ([]cloud.Refusal, error){version, clock, foreign, Image, others, donor, pods, turn}

// Judge asks all questions. An unanswered question does not stop other questions.
func (c *Case) Judge() (v Verdict) {
	var asked []func(*Case) ([]cloud.Refusal, error)
	switch {
	case c.CopiesDonor() && c.Again:
		asked = copiedBrief
	case c.CopiesDonor():
		asked = copied
	case c.Again:
		asked = brief
	default:
		asked = questions
	}
	if c.Pool == "" {
		v.Refusals, asked = []cloud.Refusal{c.notInPool(c.Unplaced)}, []func(*Case) ([]cloud.Refusal, error){version, clock, profile, foreign, Image}
	}
	for _, question := range asked {
		refusals, err := question(c)
		v.Refusals = append(v.Refusals, refusals...)
		if err != nil && !slices.ContainsFunc(v.Unread, func(other error) bool { return other.Error() == err.Error() }) {
			v.Unread = append(v.Unread, err)
		}
	}
	return v
}

// turn refuses nothing, because a capture waits for its turn. Only an error of the look matters.
func turn(c *Case) ([]cloud.Refusal, error) {
	_, err := resultOf(c.Queued, "the queue of captures")
	return nil, err
}
