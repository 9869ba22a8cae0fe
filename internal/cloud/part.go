package cloud

import "slices"

// Part is one thing that a recipe holds beside its image.
type Part struct {
	// Kind is from the provider's closed set, such as "customData" or "extension".
	Kind string `json:"kind"`
	// Name among those of its kind; empty where a recipe has one at most.
	Name string `json:"name,omitempty"`
	// Unreadable tells that the cloud does not give out all of it, so that it cannot be saved whole.
	Unreadable bool `json:"unreadable,omitempty"`
	// Note is what a person should know of it, such as where it can still be found.
	Note string `json:"note,omitempty"`
}

// CustomData is the kind of what a cloud hands to each node at its first boot.
const CustomData = "customData"

// String names it, such as "extension vmssCSE": the words of Recipe.Bootstrap.
func (p Part) String() string {
	if p.Name == "" {
		return p.Kind
	}
	return p.Kind + " " + p.Name
}

// Says names it for people, with its note.
func (p Part) Says() string {
	if p.Note == "" {
		return p.String()
	}
	return p.String() + " (" + p.Note + ")"
}

// Same tells whether two are one part of a recipe, whatever is known of each.
func (p Part) Same(other Part) bool { return p.Kind == other.Kind && p.Name == other.Name }

// HasPart tells whether the part is among others.
func HasPart(parts []Part, part Part) bool { return slices.ContainsFunc(parts, part.Same) }

// Unreadable are the parts that cannot be saved whole.
func Unreadable(parts []Part) []Part {
	return slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return !p.Unreadable })
}

// SameParts tells whether two lists are of the same parts, in any order.
func SameParts(a, b []Part) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(p Part) bool { return !HasPart(b, p) })
}

// SayParts says each part for people.
func SayParts(parts []Part) []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.Says())
	}
	return names
}
