package bench

import (
	"fmt"
	"time"
)

// Limits of the controller's figures.
const (
	maxDecision     = 2
	maxSteadyMemory = 180 << 20
	maxPeakMemory   = 200 << 20
)

func (s Scale) rows() [][3]string {
	size := fmt.Sprintf("%d nodes in %d pools", s.Nodes, s.Pools)
	return [][3]string{
		{size + ": one LIST of the nodes",
			fmt.Sprintf("%s (in pages %s; %.1f KiB each)", short(s.List()), short(median(s.Paged)), float64(s.NodeBytes)/1024), ""},
		{"controller's start to the first decision over all pools", fmt.Sprintf("%s (%d requests to Azure)", short(s.Decision()), s.Look), ""},
		{"ratio of the two", fmt.Sprintf("%.2f", s.Ratio()), fmt.Sprintf("at most %d", maxDecision)},
		{"controller's memory, peak at the start", mebibytes(s.PeakMemory), "at most " + mebibytes(maxPeakMemory)},
		{"controller's memory, steady", mebibytes(s.SteadyMemory), "at most " + mebibytes(maxSteadyMemory)},
		{fmt.Sprintf("%d heartbeats: passes, requests to Azure", s.Heartbeats), fmt.Sprintf("%d, %d", s.Passes, s.Requests), "0, 0"},
	}
}

func (s Scale) checks() []check {
	return []check{
		{"first decision", s.Ratio() > maxDecision},
		{"controller's peak memory", s.PeakMemory > maxPeakMemory},
		{"controller's steady memory", s.SteadyMemory > maxSteadyMemory},
		{"passes for heartbeats", s.Passes != 0},
		{"requests for heartbeats", s.Requests != 0},
	}
}

func short(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
