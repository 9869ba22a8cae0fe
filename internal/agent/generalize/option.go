package generalize

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mountOptions are the options of fstab, crypttab, a mount unit or the kernel command line, which systemd reads by their
// names. Of two contrary options the last one counts. Source: systemd-fstab-generator(8), fstab_filter_options.
type mountOptions []string

// Options by which systemd waits for a device, or ties a mount to a unit.
const (
	deviceTimeout = "x-systemd.device-timeout"
	requiredBy    = "x-systemd.required-by"
)

func parseOptions(text string) mountOptions { return strings.Split(text, ",") }

// nameOf returns the name of an option. The former form of x-systemd.NAME is comment=systemd.NAME.
func nameOf(option string) (name, value string) {
	if former, is := strings.CutPrefix(option, "comment=systemd."); is {
		option = "x-systemd." + former
	}
	name, value, _ = strings.Cut(option, "=")
	return name, value
}

// last returns the last option with one of these names; empty if there is none.
func (o mountOptions) last(names ...string) (name, value string) {
	for _, option := range slices.Backward(o) {
		if name, value = nameOf(option); slices.Contains(names, name) {
			return name, value
		}
	}
	return "", ""
}

func (o mountOptions) has(names ...string) bool {
	name, _ := o.last(names...)
	return name != ""
}

// isNofail reports whether the boot goes on without the device.
func (o mountOptions) isNofail() bool {
	name, _ := o.last("nofail", "fail")
	return name == "nofail"
}

// isElsewhere reports whether the device is no disk of the machine.
func (o mountOptions) isElsewhere() bool { return o.has("_netdev", "bind", "rbind", "loop") }

// isOptional reports whether a boot without the device goes on, and soon. nofail does not shorten the boot for swap space:
// the swap target starts after all swap units, so that only a timeout ends the wait. Source: systemd.mount(5),
// systemd.swap(5), crypttab(5).
func (o mountOptions) isOptional(isSwap bool) bool {
	if o.has(requiredBy) {
		return false
	}
	if auto, _ := o.last("noauto", "auto"); auto == "noauto" || o.isElsewhere() {
		return true
	}
	if isSwap {
		return o.isNofail() && o.isShort()
	}
	return o.isNofail() || o.has("x-systemd.automount")
}

// isShort reports whether the wait for the device has a short end.
func (o mountOptions) isShort() bool {
	_, wait := o.last(deviceTimeout)
	return isShort(wait)
}

// optional returns the options of a device that the boot does not need.
func (o mountOptions) optional(isSwap bool) mountOptions {
	drop := []string{requiredBy}
	if isSwap && !o.isShort() {
		drop = append(drop, deviceTimeout)
	}
	o = slices.DeleteFunc(slices.Clone(o), func(option string) bool {
		name, _ := nameOf(option)
		return option == "" || slices.Contains(drop, name)
	})
	if !o.isNofail() {
		o = append(o, "nofail")
	}
	if isSwap && !o.isShort() {
		o = append(o, deviceTimeout+"=10s")
	}
	return o
}

// defaultWait is how long systemd waits for a device without a setting, in seconds.
const defaultWait = 90

var (
	timeSpan = regexp.MustCompile(`^(?:\s*[0-9]+(?:\.[0-9]+)?\s*[a-zµμ]*)+\s*$`)
	timePart = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)\s*([a-zµμ]*)`)
)

// secondsOf are the shorter units of time. Source: systemd.time(7).
var secondsOf = map[string]float64{
	"us": 1e-6, "usec": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "msec": 1e-3,
	"": 1, "s": 1, "sec": 1, "second": 1, "seconds": 1, "m": 60, "min": 60, "minute": 60, "minutes": 60,
}

// isShort reports whether a span of systemd.time(7) is shorter than systemd waits without a setting. systemd ignores a
// span that it cannot read, and takes 0 for no end.
func isShort(span string) bool {
	if !timeSpan.MatchString(span) {
		return false
	}
	sum := 0.0
	for _, part := range timePart.FindAllStringSubmatch(span, -1) {
		seconds, isKnown := secondsOf[part[2]]
		number, err := strconv.ParseFloat(part[1], 64)
		if !isKnown || err != nil {
			return false
		}
		sum += number * seconds
	}
	return sum > 0 && sum < defaultWait
}
