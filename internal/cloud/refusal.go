package cloud

import "strings"

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
	switch {
	case remedy == "":
		return obstacle
	case strings.Contains(obstacle, ": "):
		return obstacle + "; " + remedy
	}
	return obstacle + ": " + remedy
}
