package plantest

import (
	"hash/maphash"

	"github.com/kamino-dev/kamino/internal/step"
)

// Exploration is what a planner reaches.
type Exploration[W comparable, F any, A, R ~string] struct {
	// Worlds is the number of reached worlds.
	Worlds int
	// Bad is the first violation; nil if every rule holds. Adverse is the number of adversities before it.
	Bad     *Violation[W, A, R]
	Adverse int

	model *Model[W, F, A, R]
	next  Planner[F, A, R]
	// A world may be large: the exploration keeps its hash. One of thirty million runs meets two worlds of equal hash.
	seed  maphash.Seed
	seen  map[uint64]bool
	steps map[uint64]int16 // from a world to its end
}

// Explore visits all worlds that the planner can reach within so many adversities. Each world is visited once, on the way with
// the fewest adversities. The exploration ends at the first violation.
func (m *Model[W, F, A, R]) Explore(next Planner[F, A, R], adversities int) *Exploration[W, F, A, R] {
	e := &Exploration[W, F, A, R]{model: m, next: next, seed: maphash.MakeSeed(), seen: map[uint64]bool{}, steps: map[uint64]int16{}}
	layer := e.visit(m.Starts)
	for e.Bad == nil && e.Adverse < adversities && len(layer) > 0 {
		e.Adverse++
		var reached []W
		for _, w := range layer {
			after := e.visit(m.Adverse(w))
			if e.Bad != nil {
				return e
			}
			if e.Adverse < adversities {
				reached = append(reached, after...)
			}
		}
		layer = reached
	}
	return e
}

// visit judges the worlds and their successors without adversities. It returns the new, open worlds.
func (e *Exploration[W, F, A, R]) visit(worlds []W) []W {
	var visited []W
	queue := e.unvisited(nil, worlds...)
	for len(queue) > 0 && e.Bad == nil {
		w := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if !e.model.Closed(w) {
			visited = append(visited, w)
			queue = e.judge(queue, w)
		}
	}
	for _, w := range visited {
		if e.Bad == nil {
			e.Bad = e.live(w)
		}
	}
	return visited
}

// unvisited appends the new worlds.
func (e *Exploration[W, F, A, R]) unvisited(queue []W, worlds ...W) []W {
	for _, w := range worlds {
		if key := maphash.Comparable(e.seed, w); !e.seen[key] {
			e.seen[key] = true
			e.Worlds++
			queue = append(queue, w)
		}
	}
	return queue
}

// judge judges the decisions in a world, and appends the next worlds.
func (e *Exploration[W, F, A, R]) judge(queue []W, w W) []W {
	m := e.model
	if m.Visit != nil {
		m.Visit(w)
	}
	d := e.next(m.Facts(w))
	if rule := Broken(m.Rules(w), w, d); rule != "" {
		e.Bad = &Violation[W, A, R]{rule, w, d}
		return nil
	}
	queue = e.after(queue, w, d)
	if m.Beside != nil {
		d := m.Beside.Next(m.Beside.Facts(w))
		if rule := Broken(m.Beside.Rules, w, d); rule != "" {
			e.Bad = &Violation[W, A, R]{"beside: " + rule, w, d}
			return nil
		}
		queue = e.after(queue, w, d)
	}
	return e.unvisited(queue, m.Progress(w))
}

// after appends the worlds after an action.
func (e *Exploration[W, F, A, R]) after(queue []W, w W, d step.Decision[A, R]) []W {
	if e.model.Cut != nil {
		queue = e.unvisited(queue, e.model.Cut(w, d)...)
	}
	return e.unvisited(queue, e.model.Effect(w, d))
}

// live follows the planner from a world without adversities, and returns the error of the end.
func (e *Exploration[W, F, A, R]) live(from W) *Violation[W, A, R] {
	var way []uint64
	steps, most := int16(0), e.model.maxSteps()
	for w := from; !e.model.Closed(w); {
		key := maphash.Comparable(e.seed, w)
		var known bool
		if steps, known = e.steps[key]; known {
			break
		}
		d := e.next(e.model.Facts(w))
		if len(way) == most {
			return &Violation[W, A, R]{"liveness: never ends", from, e.next(e.model.Facts(from))}
		}
		way = append(way, key)
		after := e.model.then(w, d)
		if after == w {
			return &Violation[W, A, R]{"liveness: stuck at " + d.String(), w, d}
		}
		w = after
	}
	if steps += int16(len(way)); int(steps) > most {
		return &Violation[W, A, R]{"liveness: never ends", from, e.next(e.model.Facts(from))}
	}
	for i, key := range way {
		e.steps[key] = steps - int16(i)
	}
	return nil
}
