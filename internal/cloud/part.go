package cloud

import "slices"

// Part is a part of a recipe besides its image.
type Part struct {
	// Kind is from the provider's closed set, for example "customData" or "extension".
	Kind string `json:"kind"`
	// Name distinguishes parts of a kind; empty if there is at most one.
	Name string `json:"name,omitempty"`
	// Unreadable is true if the cloud does not return the whole part, so that Kamino cannot save it.
	Unreadable bool `json:"unreadable,omitempty"`
	// Note is a hint for people, for example where the part can be found.
	Note string `json:"note,omitempty"`
}

// CustomData is the kind of the data that a cloud passes to each node at its first boot.
const CustomData = "customData"

// String returns kind and name, for example "extension vmssCSE", as in Recipe.Bootstrap.
func (p Part) String() string {
	if p.Name == "" {
		return p.Kind
	}
	return p.Kind + " " + p.Name
}

// Says returns kind, name and note for people.
func (p Part) Says() string {
	if p.Note == "" {
		return p.String()
	}
	return p.String() + " (" + p.Note + ")"
}

// Same reports whether two values mean the same part of a recipe.
func (p Part) Same(other Part) bool { return p.Kind == other.Kind && p.Name == other.Name }

// HasPart reports whether the list contains the part.
func HasPart(parts []Part, part Part) bool { return slices.ContainsFunc(parts, part.Same) }

// Unreadable returns the parts that cannot be saved completely.
func Unreadable(parts []Part) []Part {
	return slices.DeleteFunc(slices.Clone(parts), func(p Part) bool { return !p.Unreadable })
}

// SameParts reports whether two lists have the same parts, in any order.
func SameParts(a, b []Part) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(p Part) bool { return !HasPart(b, p) })
}

// SayParts returns each part as text for people.
func SayParts(parts []Part) []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.Says())
	}
	return names
}
