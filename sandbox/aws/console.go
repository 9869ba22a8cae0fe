package aws

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// consoles are the serial consoles of instances.
type consoles struct{ *backend }

func (s consoles) actions() []*action {
	return []*action{{name: "GetConsoleOutput", noun: "instance", reads: true, handle: s.output}}
}

// output is the end of the console, at most 64 KB, coded as the API requires. The sandbox has the console of the
// present with and without "Latest", which only instances on Nitro take.
func (s consoles) output(c *call, st *state) (query.Element, error) {
	id := c.in.Get("InstanceId")
	if id == "" {
		return query.Element{}, missing("InstanceId")
	}
	i, p := s.instance(c, st, id)
	if p != nil {
		return query.Element{}, p
	}
	if family, _, _ := strings.Cut(i.Type, "."); c.in.True("Latest") && slices.Contains(xenFamilies, family) {
		return query.Element{}, bad("UnsupportedOperation", "This instance type does not support retrieving the latest console logs.")
	}
	console := s.config.Fleet.Console(i.ID)
	e := query.Of("", query.Text("instanceId", i.ID), query.Date("timestamp", s.stamp()))
	if console != "" {
		e.Kids = append(e.Kids, query.Text("output", base64.StdEncoding.EncodeToString([]byte(console))))
	}
	return e, nil
}
