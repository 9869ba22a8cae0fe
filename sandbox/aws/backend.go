package aws

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/sandbox/simulator"
)

// backend is the shared part of all nouns: configuration, state, and timeline. Each noun is a type over backend, in a
// file with its name, with its requests and events.
type backend struct {
	config Config
	store  *simulator.Store[state]
	lanes  *simulator.Queues
	time   timeline
	// turns of events, by kind; each noun adds its turns.
	turns map[string]turn
	bell  chan struct{}
	done  chan struct{}
}

// newID makes an ID of EC2's form.
func newID(kind string) string {
	var b [9]byte
	_, _ = rand.Read(b[:]) // never fails
	return kind + "-0" + hex.EncodeToString(b[:])[:16]
}

// newUUID is a new ID in the format of requests and activities.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// uuidOf is the stable UUID in the firmware of an instance, with the prefix of EC2.
func uuidOf(instance string) string {
	sum := sha256.Sum256([]byte(instance))
	text := hex.EncodeToString(sum[:])
	return fmt.Sprintf("ec2%s-%s-%s-%s-%s", text[:5], text[5:9], text[9:13], text[13:17], text[17:29])
}

// stamp is the timestamp for new resources.
func (w *backend) stamp() time.Time { return w.config.Clock.Now() }

// fresh is a new resource. Clients do not see the resource before the end of the lag.
func (w *backend) fresh(st *state, kind string) resource {
	return resource{ID: newID(kind), Tags: map[string]string{}, Created: w.stamp(), Seen: st.moment + w.lag(st)}
}

func (w *backend) lag(st *state) time.Duration {
	if st.Lag != nil {
		return *st.Lag
	}
	return w.config.Lag
}

func (w *backend) arn(service, rest string) string {
	return fmt.Sprintf("arn:aws:%s:%s:%s:%s", service, w.config.Region, w.config.Account, rest)
}
