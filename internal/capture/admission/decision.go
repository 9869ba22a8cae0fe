package admission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// created is the time of the decision: now without an existing Prototype.
func (c *Case) created() time.Time {
	if at := c.Prototype.CreationTimestamp.Time; !at.IsZero() {
		return at
	}
	return c.Now
}

// version requires a version of the day of the decision, or of a neighbouring day.
func version(c *Case) ([]cloud.Refusal, error) {
	created, name := c.created(), c.Prototype.Spec.Version
	day, err := imageversion.Day(name)
	if err == nil && !created.Before(day.Add(-24*time.Hour)) && !created.After(day.Add(48*time.Hour)) {
		return nil, nil
	}
	return refuse(VersionOutOfOrder, "remove the version, or name the version of today",
		"version %s is not of today (%s)", name, imageversion.Of(created)), nil
}

// clock refuses a decision from the future or from long ago.
func clock(c *Case) ([]cloud.Refusal, error) {
	switch age := c.Now.Sub(c.created()); {
	case age < -MaxClockDifference:
		return refuse(ClockOff, "correct the clock, then try again",
			"the clock of this process is %s behind the clock of the API server", (-age).Round(time.Minute)), nil
	case age > 24*time.Hour:
		return refuse(VersionOutOfOrder, "delete the prototype and start a new capture",
			"prototype %s was created %s ago and never started", c.Prototype.Name, age.Round(time.Hour)), nil
	}
	return nil, nil
}

// profile refuses a capture in place after which the donor could not join again, or in a cloud without captures in place.
func profile(c *Case) ([]cloud.Refusal, error) {
	const remedy = "omit settings.donor.method in a policy, or set Copy in a Prototype"
	switch profile := c.Prototype.Spec.Settings.Profile(); {
	case !profile.Traits().DonorMayReturn:
		return refuse(SettingUnsupported, remedy,
			"a capture of node %s in place would delete the credential with which it joins (profile %s)", c.node(), profile), nil
	case !c.InPlace && c.Pool != "":
		return refuse(SettingUnsupported, remedy, "settings.donor.method is InPlace, but Kamino does not power off nodes in the cloud of node %s", c.node()), nil
	}
	return nil, nil
}

// foreign refuses settings of another cloud, which would have no effect.
func foreign(c *Case) ([]cloud.Refusal, error) {
	of := c.Prototype.Spec.Settings.Foreign(c.Prototype.Spec.Donor.ProviderID)
	if of == "" {
		return nil, nil
	}
	return refuse(SettingUnsupported, "remove "+of, "%s is a setting of another cloud, not of the cloud of node %s", of, c.Prototype.Spec.Donor.NodeName), nil
}

// Image refuses an image from the settings outside the allowed list: the image would run as root on a node. The process's
// own image and the configured images are allowed. The maker of each pod asks again.
func Image(c *Case) ([]cloud.Refusal, error) {
	named := c.Prototype.Spec.Settings.Generalize.Image
	switch {
	case named == "" && c.Process.Image == "":
		return refuse(NoImage,
			"build an image (podman build --target kamino-node -t REGISTRY/kamino-node:TAG .) and push the image. Then name the image with `kamino capture --image`, KAMINO_IMAGE or settings.generalize.image",
			"no image for the generalize pod: this build of Kamino is not published"), nil
	case named == "", named == c.Process.Image, slices.ContainsFunc(c.Process.AllowedImages, func(allowed string) bool { return allows(allowed, named) }):
		return nil, nil
	}
	return refuse(NotAllowed, "remove the setting, or start Kamino with --allowed-images",
		"settings.generalize.image is %s and would run as root on node %s, but only Kamino's own image (%s) and --allowed-images are allowed",
		named, c.Prototype.Spec.Donor.NodeName, c.Process.Image), nil
}

// allows reports whether an entry of the list matches an image: exactly, as its repository, or as a prefix that ends with a
// slash.
func allows(entry, image string) bool {
	if rest, found := strings.CutPrefix(image, entry); found && entry != "" {
		return rest == "" || strings.HasSuffix(entry, "/") || rest[0] == '@' || rest[0] == ':' && !strings.Contains(rest, "/")
	}
	return false
}

// others finds captures of the same pool. Of two running captures the older continues, so that exactly one continues. Pools
// with the same name in two places differ.
func others(c *Case) (refusals []cloud.Refusal, _ error) {
	list, err := resultOf(c.Others, "the other captures")
	if err != nil {
		return nil, err
	}
	p := c.Prototype
	for _, other := range list {
		theirs := other.Prototype
		if other.Pool != c.Pool && (other.Pool != "" || theirs.Spec.Pool != p.Spec.Pool) {
			continue
		}
		switch {
		case theirs.Status.Phase == v1alpha1.PhaseSucceeded && theirs.Spec.Version == p.Spec.Version:
			refusals = append(refusals, cloud.Refuse(CapturedToday,
				fmt.Sprintf("pool %s was already captured as version %s by prototype %s", p.Spec.Pool, p.Spec.Version, theirs.Name),
				fmt.Sprintf("the default is one version per day: try again tomorrow (UTC), or set --version %s", imageversion.Try(p.Spec.Version, 2))))
		case !theirs.Status.Terminal() && older(theirs, p):
			refusals = append(refusals, cloud.Refuse(CaptureInFlight,
				fmt.Sprintf("prototype %s is capturing pool %s", theirs.Name, p.Spec.Pool), "wait for the end of the capture, or delete the prototype"))
		}
	}
	return refusals, nil
}

// older orders Prototypes by creation; a Prototype without creation is the youngest.
func older(a, b *v1alpha1.Prototype) bool {
	if b.CreationTimestamp.IsZero() {
		return true
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
