package judge

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Sentences about requests to the cloud.

// call judges a request to the cloud.
func (j *judge) call(e event, kamino bool) {
	see, effects, right := j.things.awsSees, j.things.awsEffects(e), strings.Replace(e.action(), "/", ":", 1)
	if j.azure {
		see, effects, right = j.things.azureSees, azureEffects(e), azureRight(e)
	}
	if kamino && right != "" && right != "sts:GetCallerIdentity" { // needs no right
		j.expect(8, slices.ContainsFunc(facts.Published, func(p string) bool { return strings.EqualFold(p, right) }), e, "no published policy allows %s", right)
	}
	for _, f := range effects {
		t := j.thing(f.id)
		if f.id == "" {
			continue
		}
		if kamino {
			j.effect(e, f, t)
		}
		switch f.what {
		case "end", "delete":
			for _, o := range j.things {
				o.gone = o.gone || o == t || o.pool == f.id
			}
		case "guard", "unguard":
			t.guard = strings.Split(t.guard, " ")[0] + map[bool]string{true: " Standby"}[f.what == "guard"]
		case "tag":
			maps.Copy(t.tags, tagsOf(e.in, "Tag", "Key", "Value"))
		case "untag":
			for name := range tagsOf(e.in, "Tag", "Key", "Value") {
				delete(t.tags, name)
			}
		}
	}
	see(e, kamino)
}

// azureRight is the action of a request to Azure; empty for a poll, which needs no right.
func azureRight(e event) string {
	path := strings.Split(e.path[max(strings.LastIndex(e.path, "providers/"), 0):], "/")
	if path[0] != "providers" || slices.Contains(path, "operations") {
		return ""
	}
	right := path[1]
	for i := 2; i < len(path); i += 2 {
		right += "/" + path[i]
	}
	return right + "/" + map[string]string{"GET": "read", "HEAD": "read", "PUT": "write", "PATCH": "write", "DELETE": "delete", "POST": "action"}[e.method]
}

// thing is a resource of the cloud, perhaps unknown.
func (j *judge) thing(id string) *thing {
	if t := j.things[id]; t != nil {
		return t
	}
	return &thing{id: id, tags: map[string]string{}}
}

// trial: the instance, or the set, is of a trial or a workshop.
func (j *judge) trial(id string) bool {
	return strings.Contains(id, "/virtualmachinescalesets/kamino-") || j.thing(id).tags["kamino-trial-name"]+j.thing(id).tags["kamino-workshop-name"] != ""
}

// donor: a rebuild or a capture in place holds the instance, or such a capture that has not ended names it.
func (j *judge) donor(id string) bool {
	return j.held(func(h *hold) bool { p := j.prototypes[h.holder]; return h.instance == id && (p == nil || !p.copies()) }) != nil ||
		slices.ContainsFunc(slices.Collect(maps.Values(j.prototypes)), func(p *prototype) bool {
			return p.instance == id && p.ended.IsZero() && !p.copies()
		})
}

// own: Kamino created the resource, or a capture in the log did, or an image of Kamino needs the snapshot.
func (j *judge) own(t *thing) bool {
	return t.own || j.prototypes[t.tags["kamino-uid"]] != nil || t.backs != "" && j.own(j.thing(t.backs))
}

// effect judges what Kamino asked the cloud for.
func (j *judge) effect(e event, f effect, t *thing) {
	trial := j.trial(f.id)
	switch f.what {
	case "end":
		j.expect(1, trial, e, "%s ends, which is of no trial", f.id)
	case "stop", "rebuild", "guard":
		j.expect(1, trial || j.donor(f.id), e, "%s of %s, which is no donor of a capture in place", f.what, f.id)
	case "resize":
		j.expect(1, trial || f.value == "" || f.value == t.size, e, "the size of pool %s was %q, and is %q", f.id, t.size, f.value)
	case "delete", "tag", "untag":
		j.expect(5, j.own(t) || trial, e, "%s is not Kamino's", f.id)
		j.expect(7, t.kind != "image" || f.what != "delete" || !j.needed(t), e, "a rollback needs %s", f.id)
	case "recipe":
		j.recipe(e, t, f.value)
	}
}

// recipe judges the image that a pool gets.
func (j *judge) recipe(e event, pool *thing, id string) {
	image := j.thing(id)
	switch uid, proof, bad := image.tags["kamino-uid"], image.tags["kamino-proof"], image.tags["kamino-quarantined"]; {
	case id == "" || j.trial(pool.id):
	case uid == "" && image.tags["BuiltFrom"] == "":
		j.expect(2, slices.Contains(pool.images, id), e, "the recipe gets %s, which neither a capture made nor the recipe named before", id)
	default:
		j.expect(1, pool.rolling == "", e, "pool %s gives the recipe to running nodes: %s", pool.id, pool.rolling)
		j.expect(2, uid == "" || j.known[uid+" "+proof], e, "no signed report proves %s, tag %q", id, proof)
		j.expect(2, image.complete && !image.gone, e, "%s is incomplete", id)
		j.expect(2, bad == "", e, "%s is quarantined: %s", id, bad)
	}
}

// needed: a recipe names the image, or the image is the newest usable one before the recipe's.
func (j *judge) needed(image *thing) bool {
	for _, pool := range j.things {
		current, newest := j.thing(pool.image()), ""
		family, now := version(current)
		for _, other := range j.things {
			usable := other.complete && !other.gone && other.tags["kamino-quarantined"] == "" && other.tags["kamino-suspect"] == "" &&
				other.tags["kamino-proof"] != ""
			if f, v := version(other); other.kind == "image" && f == family && v < now && usable {
				newest = max(newest, v)
			}
		}
		f, v := version(image)
		if pool.kind == "set" && pool.image() != "" && f == family && (v == now || v == newest) {
			return true
		}
	}
	return false
}

// version of an image, and the family of images.
func version(t *thing) (family, version string) {
	cut := strings.LastIndex(t.id, "/") + 1
	return cmp.Or(t.tags["kamino-family"], t.id[:cut]), cmp.Or(t.tags["kamino-version"], t.id[cut:])
}
