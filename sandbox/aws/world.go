package aws

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/sandbox/lane"
	"github.com/kamino-dev/kamino/sandbox/store"
)

// world is what all nouns share: what was configured, what is known, and the time in which it changes. Each noun is a
// type of its own over it, in the file of its name, and has the requests and the events that are about it.
type world struct {
	config Config
	store  *store.Store[state]
	lanes  *lane.Lanes
	time   timeline
	// turns are what events do, by their kind; every noun adds its own.
	turns map[string]turn
	bell  chan struct{}
	done  chan struct{}
}

// newID makes an ID of EC2's form.
func newID(kind string) string {
	var b [9]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return kind + "-0" + hex.EncodeToString(b[:])[:16]
}

// newUUID makes an ID of the form that requests and activities have.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// uuidOf an instance is what its firmware tells, always the same. Those of EC2 begin so.
func uuidOf(instance string) string {
	sum := sha256.Sum256([]byte(instance))
	text := hex.EncodeToString(sum[:])
	return fmt.Sprintf("ec2%s-%s-%s-%s-%s", text[:5], text[5:9], text[9:13], text[13:17], text[17:29])
}

// stamp is the moment that things made now carry.
func (w *world) stamp() time.Time { return w.config.Clock.Now() }

// fresh is a resource that is made now. Clients that look do not see it before the cloud's lag is over.
func (w *world) fresh(st *state, kind string) resource {
	return resource{ID: newID(kind), Tags: map[string]string{}, Created: w.stamp(), Seen: st.moment + w.lag(st)}
}

func (w *world) lag(st *state) time.Duration {
	if st.Lag != nil {
		return *st.Lag
	}
	return w.config.Lag
}

func (w *world) arn(service, rest string) string {
	return fmt.Sprintf("arn:aws:%s:%s:%s:%s", service, w.config.Region, w.config.Account, rest)
}
