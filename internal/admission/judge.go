package admission

import (
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Verdict is what a case comes to.
type Verdict struct {
	// Refusals are all reasons against the capture that are known, in the order in which they are told.
	Refusals []cloud.Refusal
	// Unread are the looks that could not be made, each once. Where nothing is refused they keep the capture from beginning all
	// the same; what is refused is refused without them.
	Unread []error
}

// Admitted tells that the capture may begin.
func (v Verdict) Admitted() bool { return len(v.Refusals)+len(v.Unread) == 0 }

// Err is why nobody can say whether the capture may begin; nil if somebody can.
func (v Verdict) Err() error {
	if len(v.Refusals) > 0 {
		return nil
	}
	return v.Trouble()
}

// Trouble is all that could not be looked at; nil if nothing.
func (v Verdict) Trouble() error {
	switch len(v.Unread) {
	case 0:
		return nil
	case 1:
		return v.Unread[0]
	}
	return unread(v.Unread)
}

// unread are several looks that could not be made, in one sentence.
type unread []error

func (u unread) Error() string {
	sentences := make([]string, len(u))
	for i, err := range u {
		sentences[i] = err.Error()
	}
	return strings.Join(sentences, "; ")
}

func (u unread) Unwrap() []error { return u }

// questions, in the order in which their refusals are told: first what was decided, then the donor, the cluster, and the
// cloud. Each refuses, or says what it could not be judged by, or neither.
var questions = []func(*Case) ([]cloud.Refusal, error){
	version, clock, profile, foreign, image, others, donor, pods, donorClock, lineage,
	installation, rules, customData, force, removal, preflight, recipe, images, leaving, turn,
}

// brief are those that are asked again once the donor's disk was looked at.
var brief = []func(*Case) ([]cloud.Refusal, error){version, clock, profile, foreign, image, others, donor, pods, turn}

// Judge asks every question. One that cannot be answered keeps no other from being asked.
func (c *Case) Judge() (v Verdict) {
	asked := questions
	if c.Again {
		asked = brief
	}
	if c.Pool == "" {
		v.Refusals, asked = []cloud.Refusal{c.notInPool(c.Unplaced)}, []func(*Case) ([]cloud.Refusal, error){version, clock, profile, foreign, image}
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

// turn refuses nothing: who has to wait for it waits. It must only be known.
func turn(c *Case) ([]cloud.Refusal, error) {
	_, err := of(c.Queued, "the queue of captures")
	return nil, err
}
