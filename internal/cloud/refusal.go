package cloud

import (
	"slices"
	"strings"
)

// Refusal is a reason against an action, found before any change. Use Refuse to make a Refusal.
type Refusal struct {
	// Reason is a CamelCase word from a closed set, for conditions and metrics.
	Reason string `json:"reason"`
	// Message is the full text for people: the obstacle with its object, and the remedy.
	Message string `json:"message"`
	// Remedy is the end of Message; empty without a remedy, or if Refuse was not used.
	Remedy string `json:"remedy,omitempty"`
	// Obstacle is the beginning of Message.
	Obstacle string `json:"-"`
}

// inPlaceReasons are the reasons against a stop or a standby of the donor. A donor that is
// copied in service needs none of that.
var inPlaceReasons = []string{StopTerminates, DonorProtected}

// HoldsFor reports whether the refusal is one of a capture by copy, or in place.
func (r Refusal) HoldsFor(copies bool) bool {
	return !copies || !slices.Contains(inPlaceReasons, r.Reason)
}

// RefusalsFor returns the refusals of a capture by copy, or in place.
func RefusalsFor(copies bool, all []Refusal) []Refusal {
	return slices.DeleteFunc(slices.Clone(all), func(r Refusal) bool { return !r.HoldsFor(copies) })
}

// Refuse makes a refusal from obstacle and remedy. Only Refuse joins the two texts, and no code splits a message.
func Refuse(reason, obstacle, remedy string) Refusal {
	return Refusal{Reason: reason, Message: join(obstacle, remedy), Remedy: remedy, Obstacle: obstacle}
}

// Error returns the refusal as the error of a call that was not made.
func (r Refusal) Error(op, resource string) *Error {
	return &Error{Kind: Refused, Op: op, Resource: resource, Code: r.Reason, Message: r.Message, Refusal: &r}
}

// What returns the obstacle; the whole message if there is no separate obstacle.
func (r Refusal) What() string {
	if r.Obstacle == "" {
		return r.Message
	}
	return r.Obstacle
}

// join joins obstacle and remedy. After an obstacle with a colon the separator is a semicolon.
func join(obstacle, remedy string) string {
	if remedy == "" {
		return obstacle
	}
	switch obstacle = strings.TrimSuffix(obstacle, "."); {
	case strings.Contains(obstacle, ": "):
		return obstacle + "; " + remedy
	}
	return obstacle + ": " + remedy
}
