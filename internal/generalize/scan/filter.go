package scan

// filter finds many words in one pass, ignoring case: an Aho-Corasick automaton with complete transitions, over classes
// of bytes. With the filter, the time of a search does not depend on the number of expressions.
type filter struct {
	class [256]uint8
	// next has, for each state and class, the index of the next state in next.
	next  []uint32
	width uint32
	// words has the words that end in a state, by the state's number.
	words [][]uint16
	// longest is the length of the longest word in bytes.
	longest int
}

// ends marks a state in next in which a word ends.
const ends = 1 << 31

func fold(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func newFilter(words []string) *filter {
	f := &filter{width: 1}
	for _, word := range words {
		f.longest = max(f.longest, len(word))
		for i := range len(word) {
			if c := fold(word[i]); f.class[c] == 0 {
				f.class[c] = uint8(f.width)
				f.width++
			}
		}
	}
	for c := 'A'; c <= 'Z'; c++ {
		f.class[c] = f.class[fold(byte(c))]
	}
	var states [][]int32
	add := func() int32 {
		state := make([]int32, f.width)
		for i := range state {
			state[i] = -1
		}
		states, f.words = append(states, state), append(f.words, nil)
		return int32(len(states) - 1)
	}
	add()
	for n, word := range words {
		at := int32(0)
		for i := range len(word) {
			c := f.class[word[i]]
			if states[at][c] < 0 {
				to := add()
				states[at][c] = to
			}
			at = states[at][c]
		}
		f.words[at] = append(f.words[at], uint16(n))
	}
	f.complete(states)
	return f
}

// complete adds the transitions for mismatches: to the longest suffix that begins a word.
func (f *filter) complete(states [][]int32) {
	back := make([]int32, len(states))
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for c := range states[at] {
			to, other := states[at][c], int32(0)
			if at > 0 {
				other = states[back[at]][c]
			}
			if to < 0 {
				states[at][c] = max(other, 0)
				continue
			}
			back[to] = max(other, 0)
			f.words[to] = append(f.words[to], f.words[back[to]]...)
			queue = append(queue, to)
		}
	}
	f.next = make([]uint32, 0, len(states)*int(f.width))
	for _, state := range states {
		for _, to := range state {
			place := uint32(to) * f.width
			if len(f.words[to]) > 0 {
				place |= ends
			}
			f.next = append(f.next, place)
		}
	}
}

// find calls found for each word that begins in data[from:to], with its number and the position after it.
func (f *filter) find(data []byte, from, to int, found func(word uint16, end int)) {
	state := uint32(0)
	for i, c := range data[from:min(len(data), to+f.longest-1)] {
		state = f.next[state+uint32(f.class[c])]
		if state < ends {
			continue
		}
		state &^= ends
		for _, word := range f.words[state/f.width] {
			found(word, from+i+1)
		}
	}
}
