package estimate

import "time"

// Turnover is how fast a pool replaces its nodes if no tool rebuilds them. The estimate assumes that each node is removed
// with the same probability at any time, as in a pool that scales in at random.
type Turnover struct {
	// Nodes of the pool, and Earlier of them with another image than the current version.
	Nodes   int `json:"nodes"`
	Earlier int `json:"earlier"`
	// MeanAgeSeconds is the mean age of the nodes, which is the mean life of a node, too.
	MeanAgeSeconds int64 `json:"meanAgeSeconds"`
	// OldestAgeSeconds is the age of the oldest node.
	OldestAgeSeconds int64 `json:"oldestAgeSeconds"`
}

// slow is the time to a replaced pool from which rebuilds are worth their drains.
const slow = 7 * 24 * time.Hour

// youngPool is the age of the oldest node below which nothing is known about the life of nodes.
const youngPool = 24 * time.Hour

// IsKnown reports whether the ages of the nodes show how long nodes live. In a young pool, or in a pool whose nodes were all
// built together, the mean age only grows with the time.
func (t Turnover) IsKnown() bool {
	return time.Duration(t.OldestAgeSeconds)*time.Second >= youngPool && 4*t.OldestAgeSeconds >= 5*t.MeanAgeSeconds
}

// TurnoverOf estimates from the creation times of all nodes of a pool.
func TurnoverOf(created []time.Time, earlier int, now time.Time) Turnover {
	t := Turnover{Nodes: len(created), Earlier: earlier}
	var sum time.Duration
	for _, at := range created {
		age := max(now.Sub(at), 0)
		sum += age
		t.OldestAgeSeconds = max(t.OldestAgeSeconds, int64(age.Seconds()))
	}
	if len(created) > 0 {
		t.MeanAgeSeconds = int64((sum / time.Duration(len(created))).Seconds())
	}
	return t
}

// Replaced is the time until 95 % of today's nodes are gone: three mean lives.
func (t Turnover) Replaced() time.Duration { return 3 * time.Duration(t.MeanAgeSeconds) * time.Second }

// IsSlow reports whether nodes of earlier images stay for long.
func (t Turnover) IsSlow() bool { return t.Earlier > 0 && t.IsKnown() && t.Replaced() > slow }
