package aws

import (
	"strings"
	"sync"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// unusedParameters are parameters of every call, and of one action, that change nothing in the simulation.
var unusedParameters = map[string]bool{
	"Action": true, "Version": true, "DryRun": true, "ClientToken": true,
	"GetConsoleOutput.Latest":          true, // the console is always the latest
	"GetParameter.WithDecryption":      true, // no parameter is encrypted
	"DescribeImages.IncludeDeprecated": true, // the own images of an account are always in lists
}

// understood has the calls whose parameters the simulation reads: the action with the names of the parameters.
type understood struct {
	mu    sync.Mutex
	calls map[string]bool
}

// read answers a call that changes nothing.
func (c *call) read(st *state) (query.Element, error) {
	c.in.Track()
	answer, err := c.action.handle(c, st)
	if err != nil {
		return query.Element{}, err
	}
	if p := c.forgotten(); p != nil {
		return query.Element{}, p
	}
	return answer, nil
}

// forgotten refuses a parameter that the handler did not read; nil without such a parameter.
func (c *call) forgotten() *problem {
	for _, name := range c.in.Unread() {
		switch {
		case unusedParameters[name], unusedParameters[c.action.name+"."+name]:
		case c.service.name == "ec2":
			return bad("UnknownParameter", "The parameter %s is not recognized by the simulation of %s", name, c.action.name)
		case c.service.name == "ssm":
			return bad("ValidationException", "The parameter %s is not recognized by the simulation of %s", name, c.action.name)
		default:
			return invalid("The parameter %s is not recognized by the simulation of %s", name, c.action.name)
		}
	}
	return nil
}

// rehearse makes a write on a copy of the state, to learn whether the handler reads every parameter. Writes with the same
// parameters are not rehearsed again.
func (s *front) rehearse(c *call) error {
	known := c.action.name + " " + strings.Join(c.in.Names(), " ")
	s.understood.mu.Lock()
	defer s.understood.mu.Unlock()
	if s.understood.calls[known] {
		return nil
	}
	other := newState()
	var err error
	s.store.Read(func(st *state) { err = clone(st, other) })
	if err != nil {
		return err
	}
	other.Elapsed = s.time.now()
	other.moment = other.Elapsed
	c.in.Track()
	if _, err := c.action.handle(c, other); err != nil {
		return nil //nolint:nilerr // the write fails as well
	}
	if p := c.forgotten(); p != nil {
		return p
	}
	s.understood.calls[known] = true
	return nil
}
