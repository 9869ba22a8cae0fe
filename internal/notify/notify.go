// Package notify decides which changes people want to hear of: promoted, failed, rolled back, waiting for approval,
// frozen, unknown patches, and what else needs a person. Each change is one notice. The package is pure; package
// delivery delivers the notices.
package notify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
)

// Kind is the kind of a change.
type Kind string

// Kinds of changes.
const (
	// Promoted: the recipe of a pool names the version.
	Promoted Kind = "promoted"
	// Failed: a capture ended without a promotion, or was refused.
	Failed Kind = "failed"
	// RolledBack: Kamino rolled back a pool automatically.
	RolledBack Kind = "rolledback"
	// Approval: a complete version needs your approval.
	Approval Kind = "approval"
	// Frozen: Kamino captures no node of a pool until a person acts.
	Frozen Kind = "frozen"
	// Unchecked: a node could not check its package repositories, so the pending patches of the pool are unknown.
	Unchecked Kind = "unchecked"
	// Attention: something else needs a person, such as nodes that do not join or a refused capture.
	Attention Kind = "attention"
)

// TypePrefix begins the types of CloudEvents.
const TypePrefix = "dev.kamino."

// docs is the place of the pages.
const docs = "https://github.com/kamino-dev/kamino/blob/main/docs/"

// Notice is one change.
type Notice struct {
	// ID is the same for each report of the change.
	ID   string
	Kind Kind
	At   time.Time
	// Subject is the kind and the name of the object, such as "prototypes/pool1-2026.03.09".
	Subject string
	Data    Data
}

// Data is the content of a notice.
type Data struct {
	Cluster string `json:"cluster,omitempty"`
	Pool    string `json:"pool"`
	Version string `json:"version,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Command shows more, or does what a person must do. Link is a page about the change.
	Command string `json:"command"`
	Link    string `json:"link"`
}

// OfPrototype returns the notices about a change of a capture.
func OfPrototype(before, after *v1alpha1.Prototype, now time.Time) (all []Notice) {
	pool, version := after.Spec.Pool, after.Spec.Version
	add := func(kind Kind, reason, message, command, page string) {
		all = append(all, Notice{
			ID: fmt.Sprintf("%s-%s", after.UID, kind), Kind: kind, At: now, Subject: "prototypes/" + after.Name,
			Data: Data{Pool: pool, Version: version, Reason: reason, Message: message, Command: command, Link: docs + page},
		})
	}
	if f := after.Status.Failure; f != nil && before.Status.Failure == nil {
		add(Failed, f.Reason, fmt.Sprintf("The capture of version %s of pool %s failed: %s", version, pool, f.Message), "kamino describe "+after.Name,
			"reference/prototype.md#when-a-capture-fails")
	}
	if is, was := after.Status.Phase, before.Status.Phase; is != was && is == v1alpha1.PhaseSucceeded {
		add(Promoted, "", fmt.Sprintf("New nodes of pool %s use version %s.", pool, version), "kamino history "+pool, "tasks/history.md")
	}
	if is, was := after.Status.Phase, before.Status.Phase; is != was && is == v1alpha1.PhaseAwaitingPromotion && !after.Status.HeldBack() {
		message := fmt.Sprintf("Version %s of pool %s waits for approval.", version, pool)
		if over := after.Status.HandsOver(); over != "" {
			message = fmt.Sprintf("Version %s of pool %s is handed over: %s", version, pool, over)
		}
		reason := ""
		if ready := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
			reason = ready.Reason
		}
		add(Approval, reason, message, fmt.Sprintf("kamino promote %s %s", pool, version), "tasks/history.md#a-version-that-was-never-promoted")
	}
	return all
}

// OfPolicy returns the notices about a change of a policy's status.
func OfPolicy(before, after *v1alpha1.PrototypePolicy, now time.Time) (all []Notice) {
	for i := range after.Status.Pools {
		is := &after.Status.Pools[i]
		was := poolOf(before, is.ID)
		add := func(kind Kind, key string, data Data) {
			data.Pool = is.Name
			all = append(all, Notice{ID: fmt.Sprintf("%s-%s-%s-%s", after.UID, is.Name, kind, key), Kind: kind, At: now,
				Subject: "prototypepolicies/" + after.Name, Data: data})
		}
		if p := is.JoinHealth; p != nil && p.RolledBackAt != nil && (was.JoinHealth == nil || !p.RolledBackAt.Equal(was.JoinHealth.RolledBackAt)) {
			add(RolledBack, p.RolledBackAt.UTC().Format(time.RFC3339), Data{
				Version: p.Suspect, Reason: p.State,
				Message: fmt.Sprintf("Pool %s rolled back automatically from version %s to %s. %s", is.Name, p.Suspect, is.CurrentVersion, p.Message),
				Command: "kamino history " + is.Name, Link: docs + "concepts/join-health.md",
			})
		}
		if frozen(is) && !frozen(&was) {
			data := Data{Version: is.CurrentVersion, Reason: is.Decision.Reason,
				Message: fmt.Sprintf("Kamino captures no node of pool %s: %s", is.Name, is.Decision.Message)}
			data.Command, data.Link = v1alpha1.RetryCommand(after.Name), docs+"reference/policy.md"
			if is.Decision.Reason == v1alpha1.PolicyRolledBack {
				data.Command, data.Link = "kamino acknowledge "+is.Name, docs+"concepts/join-health.md"
			}
			add(Frozen, now.UTC().Format(time.RFC3339), data)
		}
		if unchecked(is) && !unchecked(&was) {
			add(Unchecked, now.UTC().Format(time.RFC3339), Data{
				Version: is.CurrentVersion, Reason: is.Patches.Reason,
				Message: fmt.Sprintf("The pending patches of pool %s are unknown: node %s could not check: %s", is.Name, is.Patches.Node, is.Patches.Message),
				Command: "kamino plan " + is.Name, Link: docs + "reference/policy.md",
			})
		}
	}
	return append(all, newNeeds(before, after, now)...)
}

// noticed are the kinds of items that other notices report.
var noticed = []attention.Kind{attention.PoolRolledBack, attention.PoolRollingBack, attention.PatchesNotChecked}

// newNeeds are notices about what newly needs a person, in the words of `kamino status`, unless another notice reports it.
func newNeeds(before, after *v1alpha1.PrototypePolicy, now time.Time) (all []Notice) {
	for _, i := range attention.News(before, after, nil, now) {
		if i.Severity == attention.Info || slices.Contains(noticed, i.Kind) || i.Reason == v1alpha1.PolicyTooManyFailures {
			continue
		}
		all = append(all, Notice{
			ID:   fmt.Sprintf("%s-%s-%s-%s-%s", after.UID, i.Pool, Attention, i.Kind, now.UTC().Format(time.RFC3339)),
			Kind: Attention, At: now, Subject: "prototypepolicies/" + after.Name,
			Data: Data{Pool: i.Pool, Reason: i.Reason, Message: i.Sentence(), Command: i.Command, Link: docs + "tasks/notices.md"},
		})
	}
	return all
}

// poolOf is the earlier status of a pool; empty if there is none.
func poolOf(p *v1alpha1.PrototypePolicy, id string) v1alpha1.PoolStatus {
	for _, s := range p.Status.Pools {
		if s.ID == id {
			return s
		}
	}
	return v1alpha1.PoolStatus{}
}

// frozen reports whether a person must act before another capture of the pool.
func frozen(s *v1alpha1.PoolStatus) bool {
	return s.Decision != nil && (s.Decision.Reason == v1alpha1.PolicyRolledBack || s.Decision.Reason == v1alpha1.PolicyTooManyFailures)
}

// unchecked reports whether the last check for patches had no answer.
func unchecked(s *v1alpha1.PoolStatus) bool { return s.Patches != nil && s.Patches.Reason != "" }

// CloudEvent is the notice as a CloudEvent in structured mode, version 1.0: https://cloudevents.io.
func (n Notice) CloudEvent() ([]byte, error) {
	source := "/kamino"
	if n.Data.Cluster != "" {
		source += "/" + n.Data.Cluster
	}
	return json.Marshal(struct {
		Version string `json:"specversion"`
		ID      string `json:"id"`
		Source  string `json:"source"`
		Type    string `json:"type"`
		Subject string `json:"subject"`
		Time    string `json:"time"`
		Form    string `json:"datacontenttype"`
		Data    Data   `json:"data"`
	}{"1.0", n.ID, source, TypePrefix + string(n.Kind), n.Subject, n.At.UTC().Format(time.RFC3339), "application/json", n.Data})
}

// Chat is the notice as a message of a chat: Slack, Mattermost, Rocket.Chat, Google Chat and others take a text in this form.
func (n Notice) Chat() ([]byte, error) {
	var b strings.Builder
	if n.Data.Cluster != "" {
		b.WriteString("[" + n.Data.Cluster + "] ")
	}
	fmt.Fprintf(&b, "%s\n`%s`\n%s", n.Data.Message, n.Data.Command, n.Data.Link)
	return json.Marshal(map[string]string{"text": harmless(b.String())})
}

// harmless is a text without the marks of chats for links and for notifications of everybody in a channel.
func harmless(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b").Replace(text)
}
