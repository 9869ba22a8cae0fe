package scan

import (
	"cmp"
	"slices"
)

// filter finds many words in one pass, ignoring case. The first three characters of all words exclude nearly every
// position, so the number of words hardly changes the time of a search.
type filter struct {
	// class maps each byte to a number below byteClasses; 0 for bytes that are in no word.
	class [256]uint8
	// starts has a bit for each three byteClasses that begin a word, and lists the number of their list.
	starts [byteClasses * byteClasses]uint64
	lists  []uint16
	// beginning has the words of each list, the longest first.
	beginning [][]filterWord
	// short has the words with less than three characters, which can be the end of the data.
	short []filterWord
}

type filterWord struct {
	// text is folded.
	text   string
	number uint16
}

const (
	classBits   = 6
	byteClasses = 1 << classBits
	// prefix is the number of characters in starts.
	prefix = 3
)

func fold(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func newFilter(words []string) *filter {
	f := &filter{lists: make([]uint16, byteClasses*byteClasses*byteClasses), beginning: [][]filterWord{nil}}
	used := 0
	for _, word := range words {
		for i := range len(word) {
			// With too many byteClasses, some bytes share a class.
			if c := fold(word[i]); f.class[c] == 0 {
				f.class[c] = uint8(1 + used%(byteClasses-1))
				used++
			}
		}
	}
	for c := 'A'; c <= 'Z'; c++ {
		f.class[c] = f.class[fold(byte(c))]
	}
	for n, word := range words {
		text := make([]byte, len(word))
		for i := range text {
			text[i] = fold(word[i])
		}
		f.add(filterWord{string(text), uint16(n)})
	}
	for _, list := range f.beginning {
		slices.SortStableFunc(list, func(a, b filterWord) int { return cmp.Compare(len(b.text), len(a.text)) })
	}
	return f
}

// add adds a word at all beginnings of three byteClasses.
func (f *filter) add(w filterWord) {
	at, span := 0, 1
	for i := range prefix {
		at <<= classBits
		if i < len(w.text) {
			at |= int(f.class[w.text[i]])
		} else {
			span <<= classBits
		}
	}
	if len(w.text) < prefix {
		f.short = append(f.short, w)
	}
	for ; span > 0; span, at = span-1, at+1 {
		if f.lists[at] == 0 {
			f.lists[at] = uint16(len(f.beginning))
			f.beginning = append(f.beginning, nil)
			f.starts[at>>classBits] |= 1 << (at & (byteClasses - 1))
		}
		list := &f.beginning[f.lists[at]]
		*list = append(*list, w)
	}
}

// find calls found for each word that begins in data[from:to], with its number and the position after the word. The order
// is that of the beginnings.
func (f *filter) find(data []byte, from, to int, found func(word uint16, end int)) {
	at, class, starts := uint32(0), &f.class, &f.starts
	for i, c := range data[from:min(len(data), to+prefix-1)] {
		at = (at<<classBits | uint32(class[c])) & (byteClasses*byteClasses*byteClasses - 1)
		if starts[at>>classBits]>>(at&(byteClasses-1))&1 != 0 && i >= prefix-1 {
			f.words(data, from+i-(prefix-1), f.beginning[f.lists[at]], found)
		}
	}
	for begin := max(from, len(data)-(prefix-1)); begin < min(to, len(data)); begin++ {
		f.words(data, begin, f.short, found)
	}
}

// words calls found for the words at a position.
func (f *filter) words(data []byte, begin int, words []filterWord, found func(word uint16, end int)) {
	for i := range words {
		if end := begin + len(words[i].text); end <= len(data) && isFolded(data[begin:end], words[i].text) {
			found(words[i].number, end)
		}
	}
}

// isFolded reports whether data is the folded text in any case.
func isFolded[T ~string | ~[]byte](data T, text string) bool {
	for i := range len(text) {
		if fold(data[i]) != text[i] {
			return false
		}
	}
	return true
}
