package bench

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/machine/kubelet"
)

// publishing is the time for the image version. The value may be short, because the donor returns before.
const publishing = 45 * time.Second

// snapshotting is the simulated time of a snapshot.
const snapshotting = 6 * time.Second

// Latency is a duration that the bench sets, with the sandbox's default.
type Latency struct {
	Of      string        `json:"of"`
	Set     time.Duration `json:"set"`
	Default time.Duration `json:"default"`
}

// latencies of a run: the sandbox's defaults except for publishing, or also short times for steps that a correct
// capture does not wait for.
func latencies(defaults bool) (azure.Latencies, machine.Latencies) {
	cloud, machines := azure.Latencies{Version: publishing, Snapshot: snapshotting}, machine.Latencies{}
	if !defaults {
		cloud.Create = time.Second
		machines = machine.Latencies{
			Install: time.Second, Join: time.Second, Extension: time.Second, Kubelet: kubelet.Latencies{ImagePull: time.Second},
		}
	}
	return cloud, machines
}

// set lists the latencies of a run, with the defaults.
func set(cloud azure.Latencies, machines machine.Latencies) []Latency {
	ownCloud, ownMachines := azure.Latencies{}.Defaulted(), machine.Latencies{}.Defaulted()
	cloud, machines = cloud.Defaulted(), machines.Defaulted()
	return []Latency{
		{"publishing", cloud.Version, ownCloud.Version},
		{"creation of an instance", cloud.Create, ownCloud.Create},
		{"installation", machines.Install, ownMachines.Install},
		{"join", machines.Join, ownMachines.Join},
		{"an extension", machines.Extension, ownMachines.Extension},
		{"an image pull", machines.Kubelet.ImagePull, ownMachines.Kubelet.ImagePull},
		{"stop", cloud.Stop, ownCloud.Stop},
		{"stop of a guest after power-off", cloud.StopIdle, ownCloud.StopIdle},
		{"snapshot", cloud.Snapshot, ownCloud.Snapshot},
		{"start", cloud.Start, ownCloud.Start},
		{"boot", machines.Boot, ownMachines.Boot},
		{"kubelet's start", machines.KubeletStart, ownMachines.KubeletStart},
	}
}

// described names the changed values, with the defaults.
func described(list []Latency) string {
	var words []string
	for _, l := range list {
		if l.Set == l.Default {
			continue
		}
		words = append(words, fmt.Sprintf("%s %s (else %s)", l.Of, brief(l.Set), brief(l.Default)))
	}
	return strings.Join(words, ", ")
}

// latencyTable lists the latencies of both runs, with the defaults.
func latencyTable(w io.Writer, defaults, shortened *Capture) error {
	if defaults == nil && shortened == nil {
		return nil
	}
	if _, err := fmt.Fprintln(w, "\n| latency | the sandbox's own | run at the defaults | shortened run |\n|---|---|---|---|"); err != nil {
		return err
	}
	own := set(azure.Latencies{}, machine.Latencies{})
	for i, l := range own {
		row := [2]string{"not run", "not run"}
		for column, run := range []*Capture{defaults, shortened} {
			if run == nil || i >= len(run.Latencies) {
				continue
			}
			if row[column] = brief(run.Latencies[i].Set); run.Latencies[i].Set != l.Default {
				row[column] = "**" + row[column] + "**"
			}
		}
		if _, err := fmt.Fprintf(w, "| %s | %s | %s | %s |\n", l.Of, brief(l.Default), row[0], row[1]); err != nil {
			return err
		}
	}
	away := [2]string{"not run", "not run"}
	for column, run := range []*Capture{defaults, shortened} {
		if run != nil {
			away[column] = seconds(run.Donor.OutOfService)
		}
	}
	_, err := fmt.Fprintf(w, "| donor out of service | the original: %.0f s | %s | %s |\n", original.Seconds(), away[0], away[1])
	return err
}

// brief writes a duration without trailing zeros.
func brief(d time.Duration) string {
	if d >= 2*time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%.3g s", d.Seconds())
}
