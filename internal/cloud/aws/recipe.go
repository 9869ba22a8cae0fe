package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	opRecipe  = "set the recipe of"
	opRestore = "restore the recipe of"
)

// maxRecipeWrites is how often a call updates a group that then shows another version.
const maxRecipeWrites = 3

// backup is the content of RecipeChange.Backup: the group's former launch template version. Launch templates keep old
// versions, so no content is lost.
type backup struct {
	Pool     cloud.PoolID `json:"pool"`
	Template string       `json:"launchTemplate"`
	// Version as in the group, and the number of that version.
	Version string `json:"version"`
	Number  int64  `json:"number"`
	// Image in Kamino's text form.
	Image string `json:"image"`
}

// RecipeChange implements cloud.PoolProvider. User data always stays.
func (p *PoolProvider) RecipeChange(ctx context.Context, to cloud.Target, _ bool) (cloud.RecipeChange, error) {
	ref, err := parsePool(to.Pool)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	if !p.capa { // templateShared reads all groups, so the group needs no request of its own
		if err := listGroups(ctx, p.account, ref.region); err != nil {
			return cloud.RecipeChange{}, err
		}
	}
	r, err := p.recipe(ctx, ref)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	change, err := p.changeTo(ctx, ref, r, to.Image)
	change.Version = to.Version
	return change, err
}

// changeTo returns the change of the group to an image.
func (p *PoolProvider) changeTo(ctx context.Context, ref group, r recipe, image string) (cloud.RecipeChange, error) {
	change := cloud.RecipeChange{Pool: ref.pool(), From: r.image, To: image, Keeps: r.parts(),
		Refusals: refusalsOfGroup(ref, r), Done: r.buildsFrom(image), Later: r.rolling()}
	if r.templateOwner() != "" {
		ami, err := p.ami(ctx, opRecipe, ref, ref.region, image)
		if err != nil && !cloud.Is(err, cloud.NotFound) {
			return cloud.RecipeChange{}, err
		}
		handOver := r.handOver(ref, cmp.Or(ami, "its image")) // the image may be missing
		change.HandOver, change.Refusals = handOver.Message, append(change.Refusals, *handOver)
	}
	if !change.Done { // otherwise there is nothing to write
		found, err := refusalsOfWrite(ctx, p, ref, r)
		if err != nil {
			return cloud.RecipeChange{}, err
		}
		change.Refusals = append(change.Refusals, found...)
		if refusal, err := rootRefusal(ctx, p, ref, r, image); err != nil {
			return cloud.RecipeChange{}, err
		} else if refusal != nil {
			change.Refusals = append(change.Refusals, *refusal)
		}
	}
	saved := backup{Pool: ref.pool(), Number: r.number, Image: r.image}
	if r.spec != nil {
		saved.Template, saved.Version = sdk.ToString(r.spec.LaunchTemplateId), sdk.ToString(r.spec.Version)
	}
	var err error
	change.Backup, err = json.MarshalIndent(saved, "", "  ")
	return change, fail("save the recipe of", ref, err)
}

// rootRefusal is refusalOfRoot of an image in Kamino's text form. A template without a size of volumes costs no request.
func rootRefusal(ctx context.Context, p *PoolProvider, ref group, r recipe, image string) (*cloud.Refusal, error) {
	hasSize := func(m ec2types.LaunchTemplateBlockDeviceMapping) bool { return m.Ebs != nil && m.Ebs.VolumeSize != nil }
	if r.data == nil || !slices.ContainsFunc(r.data.BlockDeviceMappings, hasSize) {
		return nil, nil
	}
	im, err := p.availableImage(ctx, opRecipe, ref, ref.region, image)
	if cloud.Is(err, cloud.NotFound) {
		return nil, nil
	}
	return refusalOfRoot(ref, r, im), err
}

// SetRecipe creates a launch template version with the new image only, and points the group to the version by number. A group
// with $Latest is pinned first. AWS has no conditional update, so SetRecipe reads the group before and after.
func (p *PoolProvider) SetRecipe(ctx context.Context, change cloud.RecipeChange) error {
	ref, err := parsePool(change.Pool)
	if err != nil {
		return err
	}
	op := opRecipe
	if change.Restores != nil {
		op = opRestore
		if _, err := readBackup(ref, change.Restores.Backup); err != nil {
			return err
		}
	}
	look, ctx := ctx, cloud.WithoutReadCache(ctx)
	for try := 1; ; try++ {
		r, err := recipeToSet(look, ctx, p, ref, change.To, try)
		if err != nil {
			return err
		}
		if r.buildsFrom(change.To) {
			return nil
		}
		if err := p.refuseChange(look, op, ref, r, change.To); err != nil {
			return err
		}
		look = ctx // read without the cache after a write
		if err := changedSince(op, ref, r, change, try); err != nil {
			return err
		}
		if r.byParameter() {
			if is, err := p.setByParameter(ctx, op, ref, r, change.To); err != nil || is {
				return err
			}
			continue
		}
		number, err := p.set(ctx, op, ref, r, change.To)
		if err != nil {
			return err
		}
		if is, err := showsVersion(ctx, p, ref, r, number); err != nil || is {
			return err
		}
	}
}

// changedSince returns why the current recipe differs from the recipe of the change; nil without a difference.
func changedSince(op string, ref group, r recipe, change cloud.RecipeChange, try int) error {
	switch {
	case r.data == nil && try > 1: // the version from this call
		return &cloud.Error{Kind: cloud.Unavailable, Op: op, Resource: ref.String(),
			Message: "AWS does not show the new launch template version yet: try again"}
	case r.data == nil:
		return errorOfTemplate(op, ref, r)
	case r.image != change.From && r.image != change.To:
		return &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: ref.String(),
			Message: fmt.Sprintf("the image is %s, not %s as planned: another client changed the image", r.image, change.From)}
	case try > maxRecipeWrites:
		return &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: ref.String(),
			Message: fmt.Sprintf("the group was set to %s %d times, but shows %s: find the client that changes the group back",
				change.To, maxRecipeWrites, r.image)}
	}
	return nil
}

// showsVersion reports whether the group names the version that this call made. AWS has already confirmed the image.
func showsVersion(ctx context.Context, p *PoolProvider, ref group, r recipe, number int64) (bool, error) {
	if number == 0 {
		return false, nil
	}
	now, err := p.group(ctx, ref)
	wanted := *r.spec
	wanted.Version = sdk.String(strconv.FormatInt(number, 10))
	return err == nil && sameSpec(specOf(now), &wanted), err
}

// recipeToSet reads the group, first with a cache: set reads the group again before the write. $Latest and $Default are never
// cached, because their meaning changes. AWS refuses a new version without its source version.
func recipeToSet(look, fresh context.Context, p *PoolProvider, ref group, image string, try int) (recipe, error) {
	if try == 1 && cloud.ReadCacheOf(look) != nil {
		r, err := p.recipe(look, ref)
		if err != nil || r.pinned() && r.data != nil && !r.buildsFrom(image) {
			return r, err
		}
		if r.pinned() {
			v, err := p.version(fresh, ref, *r.spec)
			if v == nil { // template or version is gone
				r.number, r.data, r.image = 0, nil, ""
			}
			return r, err
		}
	}
	return p.recipe(fresh, ref)
}

// set points an unchanged group to an image. set returns the number of the new version; 0 if there is no new version.
func (p *PoolProvider) set(ctx context.Context, op string, ref group, r recipe, image string) (int64, error) {
	im, err := p.availableImage(ctx, op, ref, ref.region, image)
	if err != nil {
		return 0, err
	}
	if refusal := refusalOfRoot(ref, r, im); refusal != nil {
		return 0, refusal.Error(op, ref.String())
	}
	if !r.pinned() {
		if err := p.setVersion(ctx, op, ref, r, r.number); err != nil || r.image == image {
			return 0, err
		}
	}
	number, err := p.templateWithImage(ctx, op, ref, r, im, image)
	if err != nil {
		return 0, err
	}
	now, err := p.group(ctx, ref)
	if err != nil {
		return 0, err
	}
	pinned := *r.spec
	pinned.Version = sdk.String(r.text())
	if !sameSpec(specOf(now), &pinned) { // the caller reads the group again and decides
		return 0, nil
	}
	r.group = now
	return number, p.setVersion(ctx, op, ref, r, number)
}

// ami returns the AMI ID of an image in Kamino's text form. The image must exist and be available.
func (a *account) ami(ctx context.Context, op string, of fmt.Stringer, in, image string) (string, error) {
	im, err := a.availableImage(ctx, op, of, in, image)
	return sdk.ToString(im.ImageId), err
}

// availableImage is ami, but returns the whole image.
func (a *account) availableImage(ctx context.Context, op string, of fmt.Stringer, in, image string) (ec2types.Image, error) {
	var all []ec2types.Image
	if im, known := recentlyAvailable(a, in, image); known {
		return im, nil
	}
	if name, own := strings.CutPrefix(image, in+"/"); own {
		found, err := a.images(ctx, in, text("the images of "+in), ec2types.Filter{Name: sdk.String("name"), Values: []string{name}})
		if err != nil {
			return ec2types.Image{}, err
		}
		all = found
	} else if im, err := a.imageByID(ctx, in, image); err != nil {
		return ec2types.Image{}, err
	} else if im != nil {
		all = append(all, *im)
	}
	for _, im := range all {
		if canLaunch(im) && textOf(in, im) == image {
			return im, nil
		}
	}
	return ec2types.Image{}, &cloud.Error{Kind: cloud.NotFound, Op: op, Resource: of.String(),
		Message: fmt.Sprintf("image %s does not exist, or is not available: name an available image", image)}
}

// RestoreChange implements cloud.PoolProvider. Kamino removes nothing but the image from a recipe.
func (p *PoolProvider) RestoreChange(ctx context.Context, pool cloud.PoolID, saved cloud.Saved) (cloud.RecipeChange, error) {
	ref, err := parsePool(pool)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	was, err := readBackup(ref, saved.Backup)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	r, err := p.recipe(ctx, ref)
	if err != nil {
		return cloud.RecipeChange{}, err
	}
	image := was.Image
	if versionOf(cloud.ImageFamily{Place: ref.region, Name: ref.name}, image) != "" { // only a rollback returns to a version of the pool
		image = r.image
	}
	change, err := p.changeTo(ctx, ref, r, image)
	change.Restores = &saved
	return change, err
}

// readBackup parses a backup, and refuses the backup of another group.
func readBackup(ref group, data []byte) (backup, error) {
	var was backup
	invalid := func(message string) error {
		return &cloud.Error{Kind: cloud.Invalid, Op: opRestore, Resource: ref.String(), Message: message}
	}
	if err := json.Unmarshal(data, &was); err != nil || was.Pool == "" || was.Image == "" {
		return was, invalid("the backup is not a recipe of an Auto Scaling group")
	}
	if was.Pool != ref.pool() {
		return was, invalid("the backup is a recipe of " + string(was.Pool))
	}
	return was, nil
}
