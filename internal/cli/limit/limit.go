// Package limit refuses values that the API does not accept, and names the flag. The API server would treat a zero as
// absent and use the default silently. All errors are usage errors.
package limit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/imageversion"
)

// Limits of the API.
const (
	minKeep        = 2
	maxKeep        = 1000
	maxNewNodes    = 1000
	maxReplicas    = 100
	maxUnavailable = 100_000
	// minRate and maxRate are the limits of AWS.
	minRate, maxRate = 100, 300
)

// Settings refuses values that the API does not accept.
func Settings(s v1alpha1.Settings) error {
	for _, refuse := range []func(v1alpha1.Settings) error{profile, times, donor, trial} {
		if err := refuse(s); err != nil {
			return err
		}
	}
	switch limit := s.OutOfService.MaxUnavailable; {
	case limit != nil && !meansNodes(limit):
		return fmt.Errorf("--max-unavailable must be a number from 1 to %d, or a share such as 10%%, not %s", maxUnavailable, limit.String())
	case !KnownUnknownFiles(s.Generalize.UnknownFiles):
		return fmt.Errorf("--unknown-files must be Allow or Refuse, not %q", s.Generalize.UnknownFiles)
	case s.Drain.GracePeriod != nil && s.Drain.GracePeriod.Duration < 0:
		return fmt.Errorf("--grace-period must not be negative: %s", s.Drain.GracePeriod.Duration)
	case s.Keep < minKeep || s.Keep > maxKeep:
		return fmt.Errorf("--keep must be from %d to %d versions, not %d: the current and the prior one always stay", minKeep, maxKeep, s.Keep)
	case s.Recipe.NewNodes < 0 || s.Recipe.NewNodes > maxNewNodes:
		return fmt.Errorf("--new-nodes must be from 0 to %d nodes, not %d", maxNewNodes, s.Recipe.NewNodes)
	}
	return cloud(s)
}

// cloud refuses settings that the cloud would not accept.
func cloud(s v1alpha1.Settings) error {
	switch {
	case s.Azure != nil && s.Azure.Replicas != nil && (s.Replicas() < 1 || s.Replicas() > maxReplicas):
		return fmt.Errorf("--replicas must be from 1 to %d, not %d", maxReplicas, s.Replicas())
	case s.AWS != nil && s.AWS.VolumeInitializationRate != nil && (s.InitializationRate() < minRate || s.InitializationRate() > maxRate):
		return fmt.Errorf("--volume-initialization-rate must be from %d to %d MiB/s, not %d", minRate, maxRate, s.InitializationRate())
	}
	return nil
}

// profile refuses an unknown profile.
func profile(s v1alpha1.Settings) error {
	if p := s.Generalize.Profile; p != "" && !slices.Contains(v1alpha1.Profiles(), p) {
		return fmt.Errorf("unknown --profile %q: use one of %s", p, strings.Join(Profiles(), ", "))
	}
	return nil
}

// Profiles are the names for --profile.
func Profiles() (names []string) {
	for _, p := range v1alpha1.Profiles() {
		names = append(names, string(p))
	}
	return names
}

// times refuses durations that leave no time.
func times(s v1alpha1.Settings) error {
	for _, limit := range []struct {
		flag string
		time time.Duration
	}{
		{"drain-timeout", s.Drain.Timeout.Duration}, {"deadline", s.OutOfService.Deadline.Duration},
		{"ready-timeout", s.OutOfService.ReadyTimeout.Duration}, {"trial-timeout", s.Trial.Timeout.Duration},
		{"promotion-timeout", s.Promotion.Timeout.Duration},
	} {
		if limit.time <= 0 {
			return fmt.Errorf("--%s must be longer than 0s, such as 15m, not %s", limit.flag, limit.time)
		}
	}
	return nil
}

// donor refuses contradictions about the donor's future.
func donor(s v1alpha1.Settings) error {
	returns := s.Donor.Afterwards == v1alpha1.Return
	switch {
	case !knownAfterwards(s.Donor.Afterwards):
		return fmt.Errorf("--afterwards must be Return or Remove, not %q", s.Donor.Afterwards)
	case returns && s.Generalize.Profile != "" && !s.Profile().Traits().DonorMayReturn:
		return fmt.Errorf("--afterwards Return does not work with profile %s: Kamino deletes the join credential from the disk, so use Remove", s.Generalize.Profile)
	case returns && s.Donor.GrowFirst != nil && *s.Donor.GrowFirst:
		return fmt.Errorf("--grow-first and --afterwards Return exclude each other: remove one of the flags")
	}
	return nil
}

// trial refuses unknown values for trials and promotions.
func trial(s v1alpha1.Settings) error {
	switch s.Trial.Mode {
	case "", v1alpha1.TrialApart, v1alpha1.TrialOff:
	default:
		return fmt.Errorf("--trial must be Apart or Off, not %q", s.Trial.Mode)
	}
	switch s.Promotion.Mode {
	case "", v1alpha1.PromotionAutomatic, v1alpha1.PromotionManual:
	default:
		return fmt.Errorf("--promotion must be Automatic or Manual, not %q", s.Promotion.Mode)
	}
	if s.Trial.Soak != nil && s.Trial.Soak.Duration < 0 {
		return fmt.Errorf("--soak must not be negative: %s", s.Trial.Soak.Duration)
	}
	for _, name := range s.Trial.IgnoreDaemonSets {
		if namespace, of, both := strings.Cut(name, "/"); !both || namespace == "" || of == "" {
			return fmt.Errorf("--trial-ignore-daemonset %q must be a DaemonSet as namespace/name, such as kube-system/agent", name)
		}
	}
	return nil
}

// meansNodes reports whether the value is a number of nodes or a percentage.
func meansNodes(limit *intstr.IntOrString) bool {
	n, err := intstr.GetScaledValueFromIntOrPercent(limit, 100, true)
	most := maxUnavailable
	if limit.Type == intstr.String {
		most = 100
	}
	return err == nil && n >= 1 && n <= most
}

// KnownUnknownFiles reports whether the value is known or empty.
func KnownUnknownFiles(u v1alpha1.UnknownFiles) bool {
	return u == "" || u == v1alpha1.UnknownFilesAllow || u == v1alpha1.UnknownFilesRefuse
}

// Version checks the flag --version: a day as YYYY.MM.DD, or a further version of a day. Empty means today. A future day
// would block all captures until that day, because later captures would not be newer.
func Version(text string, now time.Time) error {
	if text == "" {
		return nil
	}
	day, err := imageversion.Day(text)
	switch today := imageversion.Of(now); {
	case err != nil:
		return fmt.Errorf("--version %q is not a day in the form YYYY.MM.DD, such as 2026.03.09, or 2026.03.0902 for the day's second version", text)
	case imageversion.Compare(imageversion.Of(day), today) > 0:
		return fmt.Errorf("--version %s is in the future: today is %s (UTC), and older versions could not follow", text, today)
	default:
		return nil
	}
}

// knownAfterwards reports whether the value is known or empty.
func knownAfterwards(a v1alpha1.Afterwards) bool {
	return a == "" || a == v1alpha1.Return || a == v1alpha1.Remove
}
