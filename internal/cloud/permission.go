package cloud

import (
	"slices"

	"sigs.k8s.io/yaml"
)

// Permission is one action that a credential needs.
type Permission struct {
	// Action and Scope are in the cloud's own words.
	Action string `json:"action"`
	Scope  string `json:"scope"`
	// Allowed is true if the credential has the permission.
	Allowed bool `json:"allowed"`
	// For names the feature that needs the permission; empty if captures by either method need it.
	For string `json:"for,omitempty"`
	// Remedy is how to grant the permission; empty if a role with the action is enough.
	Remedy string `json:"remedy,omitempty"`
}

// ForTrialApart is the value of Permission.For for trials.
const ForTrialApart = "a trial next to the pool"

// ForInPlace is the value of Permission.For for stopping, starting and holding a donor. A donor whose disk is copied in use stays on.
const ForInPlace = "a capture in place"

// ForRebuild is the value of Permission.For for EnsureRebuilt. Captures need none of it.
const ForRebuild = "rebuilding nodes"

// ForCopy is the value of Permission.For for workshops and copies of disks in use.
const ForCopy = "a capture by copy"

// ForConsole is the value of Permission.For for ConsoleOutput.
const ForConsole = "the serial console of a failed trial"

// ForReboot is the value of Permission.For for Restart. A trial does without.
const ForReboot = "the second boot of a trial"

// ForQuarantine is the value of Permission.For for AllowLaunches. A quarantine is complete without it.
const ForQuarantine = "quarantining images"

// ForParameter is the value of Permission.For for promotions of pools whose image another tool finds by a parameter.
const ForParameter = "promoting by a parameter"

// ForWarmPool is the value of Permission.For for ResizeWarmPool, and for the instances of Pool.Warm.
const ForWarmPool = "renewing a warm pool"

// Use declares actions of a cloud with the same purpose. Each provider has a file actions.yaml with all its actions.
type Use struct {
	// Where is the scope of the actions, as the beginning of a sentence; empty for the usual scope of the provider. For is the
	// purpose. Both are Markdown.
	Where string `json:"where"`
	For   string `json:"for"`
	// Feature is Permission.For.
	Feature string `json:"feature"`
	// Kinds are the kinds of resources for which the provider checks the permission.
	Kinds []string `json:"kinds"`
	// Statement and ByTags are statements of the provider's policies; empty without such policies.
	Statement string   `json:"statement"`
	ByTags    []string `json:"byTags"`
	// Actions are in the cloud's own words.
	Actions []string `json:"actions"`
}

// Uses are all uses of a provider.
type Uses []Use

// ReadUses reads an embedded actions.yaml.
func ReadUses(text []byte) (all Uses) {
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		panic(err) // the file is part of the program
	}
	return all
}

// Actions returns the actions of the uses that have a property.
func (u Uses) Actions(has func(Use) bool) (actions []string) {
	for _, use := range u {
		if has(use) {
			actions = append(actions, use.Actions...)
		}
	}
	return actions
}

// powers are the features that act on running nodes, or on the instances of a warm pool. A policy or role has them only on request.
var powers = []string{ForInPlace, ForRebuild, ForWarmPool}

// Granted are the uses in a policy or role with some of the powers ForInPlace, ForRebuild and ForWarmPool.
func (u Uses) Granted(of ...string) Uses {
	return slices.DeleteFunc(slices.Clone(u), func(use Use) bool { return slices.Contains(powers, use.Feature) && !slices.Contains(of, use.Feature) })
}

// PowerRemedy grants the permissions of a power; empty for other features.
func PowerRemedy(provider, feature string) string {
	flag := map[string]string{ForInPlace: "in-place", ForRebuild: "rebuild", ForWarmPool: "warm-pool"}[feature]
	if flag == "" {
		return ""
	}
	remedy := "give the credential what `kamino manifests --iam --cloud " + provider + " --" + flag + "` prints"
	if feature == ForInPlace {
		remedy += ", or capture by copy (settings.donor.method)"
	}
	return remedy
}

// IsOf reports whether a use has one of the kinds.
func (u Use) IsOf(kinds ...string) bool {
	return slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(u.Kinds, k) })
}
