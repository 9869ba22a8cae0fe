package cloud

import "strings"

// Refusal is a reason why something will not be done, found before anything was changed. Refuse makes one.
type Refusal struct {
	// Reason in one CamelCase word, from a closed set: it is shown in conditions and counted in metrics.
	Reason string `json:"reason"`
	// Message is the whole for people: what is in the way, naming the object, and what to do about it.
	Message string `json:"message"`
	// Remedy is what to do about it, which is the end of Message; empty where nobody can do anything, or where the
	// refusal was not made by Refuse.
	Remedy string `json:"remedy,omitempty"`
	// Obstacle is what is in the way, which is the beginning of Message.
	Obstacle string `json:"-"`
}

// Refuse makes a refusal out of what is in the way and what to do about it, which are joined here and nowhere else:
// nobody takes a sentence apart again.
func Refuse(reason, obstacle, remedy string) Refusal {
	return Refusal{Reason: reason, Message: join(obstacle, remedy), Remedy: remedy, Obstacle: obstacle}
}

// Error is the refusal as the error of a call that was not made.
func (r Refusal) Error(op, resource string) *Error {
	return &Error{Kind: Refused, Op: op, Resource: resource, Code: r.Reason, Message: r.Message, Refusal: &r}
}

// What is in the way: the whole sentence where it was not made of two.
func (r Refusal) What() string {
	if r.Obstacle == "" {
		return r.Message
	}
	return r.Obstacle
}

// join puts a remedy behind a sentence. One that has a colon already takes no second one.
func join(obstacle, remedy string) string {
	switch {
	case remedy == "":
		return obstacle
	case strings.Contains(obstacle, ": "):
		return obstacle + "; " + remedy
	}
	return obstacle + ": " + remedy
}
