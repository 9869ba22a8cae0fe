package cloud

import "slices"

// RecipeField is a part of a recipe besides its image.
type RecipeField struct {
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
func (p RecipeField) String() string {
	if p.Name == "" {
		return p.Kind
	}
	return p.Kind + " " + p.Name
}

// Describe returns kind, name and note for people.
func (p RecipeField) Describe() string {
	if p.Note == "" {
		return p.String()
	}
	return p.String() + " (" + p.Note + ")"
}

// Same reports whether two values mean the same part of a recipe.
func (p RecipeField) Same(other RecipeField) bool {
	return p.Kind == other.Kind && p.Name == other.Name
}

// HasField reports whether the list contains the part.
func HasField(parts []RecipeField, part RecipeField) bool {
	return slices.ContainsFunc(parts, part.Same)
}

// Unreadable returns the parts that cannot be saved completely.
func Unreadable(parts []RecipeField) []RecipeField {
	return slices.DeleteFunc(slices.Clone(parts), func(p RecipeField) bool { return !p.Unreadable })
}

// SameFields reports whether two lists have the same parts, in any order.
func SameFields(a, b []RecipeField) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(p RecipeField) bool { return !HasField(b, p) })
}

// DescribeFields returns each part as text for people.
func DescribeFields(parts []RecipeField) []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.Describe())
	}
	return names
}
