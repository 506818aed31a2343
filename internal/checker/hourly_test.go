package checker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agrajag-dev/agrajag/api/v1alpha1"
	"github.com/agrajag-dev/agrajag/internal/tenancy"
)

// began makes a job one that began after t0, and closed a minute later.
func began(after time.Duration) func(*v1alpha1.DiagnosisJob) {
	return func(job *v1alpha1.DiagnosisJob) {
		diagnosed(v1alpha1.Intermittent)(job)
		job.Status.StartedAt, job.Status.ClosedAt = at(after), at(after+time.Minute)
	}
}

func TestARowIsDiagnosedSoOftenAnHour(t *testing.T) {
	global := report(func(r *Report) { r.Scope = v1alpha1.ScopeGlobal })
	bob := report(func(r *Report) { r.User = "bob" })
	starts := func(r Report, edits ...func([]jobFact)) []jobFact {
		var jobs []jobFact
		for i := range 4 {
			jobs = append(jobs, jobOf(fmt.Sprintf("j%d", i), r, v1alpha1.ErrorSignature(fmt.Sprintf("e%d", i)), began(time.Duration(i)*10*time.Minute)))
		}
		jobs[3].job.Spec.Trigger = v1alpha1.TriggerUserRequest // A person asked.
		for _, edit := range edits {
			edit(jobs)
		}
		return jobs
	}
	blames := func(class v1alpha1.Classification, user v1alpha1.UserID) func([]jobFact) {
		return func(jobs []jobFact) {
			for _, one := range jobs {
				one.job.Status.Diagnosis.Classification, one.job.Spec.OriginatingUserID = class, user
			}
		}
	}
	asked := func(jobs []jobFact) {
		for _, one := range jobs {
			one.job.Spec.Trigger = v1alpha1.TriggerUserRequest
		}
	}
	waiting := func(n int) []jobFact {
		var jobs []jobFact
		for i := range n {
			name := fmt.Sprintf("w%d", i)
			jobs = append(jobs, jobOf(name, bob, v1alpha1.ErrorSignature(name), func(job *v1alpha1.DiagnosisJob) { job.CreationTimestamp = *at(time.Duration(i) * time.Second) }))
		}
		return jobs
	}
	pending, asPerson := want{Outcome: Pending, Class: v1alpha1.Unclear, RetryAfter: justClosed}, want{Outcome: Pending, Class: v1alpha1.Unclear}
	into := func(job string) want {
		return want{Outcome: Coalesced, Class: v1alpha1.Unclear, Job: job, RetryAfter: 30 * time.Second}
	}
	for _, tc := range []struct {
		decisionCase
		most    int
		trigger v1alpha1.Trigger
		free    string // when there is room, as the message says
		begun   bool   // the report's own job was
	}{
		{decisionCase: decisionCase{name: "three diagnoses of other errors and one that a person asked for: the fifth joins the newest until the first is an hour old", report: report(), jobs: starts(report()),
			after: 45 * time.Minute, want: into("j3")}, most: 4, free: "15m"},
		{decisionCase: decisionCase{name: "with a recovery in sight the caller waits for that", report: report(), jobs: starts(report()), after: 45 * time.Minute,
			rows: []*v1alpha1.ToolHealth{nil, nil, rowOf(v1alpha1.ScopeProject, found("e3", 50*time.Minute))},
			want: want{Outcome: Coalesced, Class: v1alpha1.Unclear, Job: "j3", RetryAfter: 5 * time.Minute}}, most: 4, free: "15m"},
		{decisionCase: decisionCase{name: "whoever met them", report: bob, jobs: starts(report()), after: 45 * time.Minute, want: into("j3")}, most: 4, free: "15m"},
		{decisionCase: decisionCase{name: "when the first is an hour old there is room", report: report(), jobs: starts(report()), after: time.Hour, want: pending}, most: 4},
		{decisionCase: decisionCase{name: "three are not four", report: report(), jobs: starts(report())[1:], after: 45 * time.Minute, want: pending}, most: 4},
		{decisionCase: decisionCase{name: "another row has its own", report: report(), jobs: starts(global), after: 45 * time.Minute, want: pending}, most: 4},
		{decisionCase: decisionCase{name: "a job that never began does not count", report: report(), jobs: starts(report(), func(jobs []jobFact) { jobs[2].job.Status.StartedAt = nil }),
			after: 45 * time.Minute, want: pending}, most: 4},
		{decisionCase: decisionCase{name: "a stored report is held to it as well", report: report(own("mine", 0)), jobs: starts(report()), after: 45 * time.Minute, want: into("j3")}, most: 4, free: "15m"},
		{decisionCase: decisionCase{name: "verdicts that blame one user take no turn of another's", report: bob, jobs: starts(report(), blames(v1alpha1.UserInput, "alice")),
			after: 45 * time.Minute, want: pending}, most: 4},
		{decisionCase: decisionCase{name: "that user's own they do", report: bob, jobs: starts(report(), blames(v1alpha1.UserInput, "bob")),
			after: 45 * time.Minute, want: into("j3")}, most: 4, free: "15m"},
		{decisionCase: decisionCase{name: "verdicts that blame nobody known count for everybody", report: bob, jobs: starts(report(), blames(v1alpha1.UserInput, "")),
			after: 45 * time.Minute, want: into("j3")}, most: 4, free: "15m"},
		{decisionCase: decisionCase{name: "as do those about the tool", report: bob, jobs: starts(report(), blames(v1alpha1.TechnicallyBroken, "alice")),
			after: 45 * time.Minute, want: into("j3")}, most: 4, free: "15m"},
		{decisionCase: decisionCase{name: "without a limit nothing is refused", report: report(), jobs: starts(report()), after: 45 * time.Minute, want: pending}},
		{decisionCase: decisionCase{name: "a limit that was lowered counts from the newest", report: report(), jobs: starts(report()), after: 45 * time.Minute, want: into("j3")}, most: 1, free: "45m"},
		{decisionCase: decisionCase{name: "a person who asks for a fifth gets the newest, too, and is told when to ask again", report: report(), jobs: starts(report()), after: 45 * time.Minute,
			want: want{Outcome: Coalesced, Class: v1alpha1.Unclear, Job: "j3", RetryAfter: 15 * time.Minute}}, most: 4, free: "15m", trigger: v1alpha1.TriggerUserRequest},
		{decisionCase: decisionCase{name: "when the first is an hour old a person is answered", report: report(), jobs: starts(report()), after: time.Hour, want: asPerson}, most: 4, trigger: v1alpha1.TriggerUserRequest},
		{decisionCase: decisionCase{name: "errors leave one time to people: a fourth joins the newest", report: report(), jobs: starts(report())[:3], after: 45 * time.Minute,
			want: into("j2")}, most: 4, free: "15m"},
		{decisionCase: decisionCase{name: "which a person gets", report: report(), jobs: starts(report())[:3], after: 45 * time.Minute, want: asPerson}, most: 4, trigger: v1alpha1.TriggerUserRequest},
		{decisionCase: decisionCase{name: "which an error gets", report: report(), jobs: starts(report(), asked)[1:], after: 45 * time.Minute, want: pending}, most: 4},
		{decisionCase: decisionCase{name: "people leave one time to errors, too", report: report(), jobs: starts(report(), asked)[1:], after: 45 * time.Minute,
			want: want{Outcome: Coalesced, Class: v1alpha1.Unclear, Job: "j3", RetryAfter: 25 * time.Minute}}, most: 4, free: "25m", trigger: v1alpha1.TriggerUserRequest},
		{decisionCase: decisionCase{name: "of more that began under another limit there is no room for anybody", report: report(), jobs: starts(report(), asked), after: 45 * time.Minute, want: into("j3")}, most: 4, free: "15m"},
		{decisionCase: decisionCase{name: "where there is one time, none is kept", report: report(), after: 45 * time.Minute, want: pending}, most: 1},
		{decisionCase: decisionCase{name: "and an error that had it leaves none to a person", report: report(), jobs: starts(report())[2:3], after: 45 * time.Minute,
			want: want{Outcome: Coalesced, Class: v1alpha1.Unclear, Job: "j2", RetryAfter: 35 * time.Minute}}, most: 1, free: "35m", trigger: v1alpha1.TriggerUserRequest},
		{decisionCase: decisionCase{name: "a run that failed is tried once more, whatever began since", report: report(own("mine", 0)), jobs: starts(report()), after: 45 * time.Minute, want: asPerson},
			most: 4, trigger: v1alpha1.TriggerUserRequest, begun: true},
		{decisionCase: decisionCase{name: "a schedule waits", report: report(), jobs: starts(report()), after: 45 * time.Minute, want: into("j3")}, most: 4, free: "15m", trigger: v1alpha1.TriggerScheduledRecheck},
		{decisionCase: decisionCase{name: "a new error that would wait behind three others is not stored", report: report(), jobs: waiting(3), want: into("w2")}, most: 4},
		{decisionCase: decisionCase{name: "a person is not turned away for them", report: report(), jobs: waiting(3), want: asPerson}, most: 4, trigger: v1alpha1.TriggerUserRequest},
		{decisionCase: decisionCase{name: "one that is stored may see its turn", report: report(own("zebra", 0)), jobs: waiting(3), want: pending}, most: 4},
		{decisionCase: decisionCase{name: "behind two it waits", report: report(), jobs: waiting(2), want: pending}, most: 4},
		{decisionCase: decisionCase{name: "those that wait and those that began count together", report: report(), jobs: append(waiting(1), starts(report())[1:]...),
			after: 45 * time.Minute, want: into("w0")}, most: 4},
		{decisionCase: decisionCase{name: "another user's job for the same error takes no turn of its own", report: report(), after: 45 * time.Minute, want: pending,
			jobs: append([]jobFact{jobOf("same", bob, "http-5xx")}, starts(report())[1:]...)}, most: 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			verdict := unclear503
			if tc.trigger != "" {
				tc.report.Trigger, verdict = tc.trigger, again
			}
			if tc.begun {
				tc.report.Job.Status.Attempts = 1
			}
			d := Decision{Verdict: verdict, Class: verdict.Class, Key: keyOf(place, tc.report, verdict.Signature), Place: place}
			decide(&d, facts{now: t0.Add(tc.after), report: tc.report, rows: tc.rows, jobs: tc.jobs, perHour: tc.most})
			if diff := cmp.Diff(tc.want, want{d.Outcome, d.Class, d.RetryAfter, d.Job}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			until := " in " + tc.free
			if tc.trigger == "" {
				until += ". Do not call it again for " + wait(d.RetryAfter)
			}
			if tc.free != "" && (!strings.Contains(d.Message, times(len(tc.jobs))+" within the hour for scope PROJECT") || !strings.Contains(d.Message, "job "+tc.want.Job+",") || !strings.HasSuffix(d.Message, until)) {
				t.Errorf("the caller is told %q", d.Message)
			}
		})
	}
}

func TestStartsOfOtherProjectsCountOnTheRowsThatTheyShare(t *testing.T) {
	job := func(namespace, name string, edits ...func(*v1alpha1.DiagnosisJob)) client.Object {
		job := &v1alpha1.DiagnosisJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)},
			Spec: v1alpha1.DiagnosisJobSpec{ToolName: "search", Scope: v1alpha1.ScopeTenant}}
		began(-time.Minute)(job)
		for _, edit := range edits {
			edit(job)
		}
		return job
	}
	global := func(job *v1alpha1.DiagnosisJob) { job.Spec.Scope = v1alpha1.ScopeGlobal }
	w := newWorld(t,
		job("acme", "of-the-tenant"), job("shop", "own"), job("solo", "of-nobody"), job("shop", "global", global), job("solo", "global-too", global),
		job("acme", "of-a-project", func(job *v1alpha1.DiagnosisJob) { job.Spec.Scope = v1alpha1.ScopeProject }),
		job("acme", "of-another-tool", func(job *v1alpha1.DiagnosisJob) { job.Spec.ToolName = "orders" }),
		job("acme", "an-hour-ago", began(-time.Hour)), job("acme", "never", func(job *v1alpha1.DiagnosisJob) { job.Status.StartedAt = nil }),
		job("acme", "bobs", func(job *v1alpha1.DiagnosisJob) {
			diagnosed(v1alpha1.UserInput)(job)
			job.Spec.OriginatingUserID = "bob"
		}),
		job("gone", "of-a-namespace-that-is-gone"),
	)
	for scope, want := range map[v1alpha1.Scope][]string{
		v1alpha1.ScopeUser: nil, v1alpha1.ScopeProject: nil, v1alpha1.ScopeTenant: {"of-the-tenant"}, v1alpha1.ScopeGlobal: {"global-too"},
	} {
		key := keyOf(place, report(func(r *Report) { r.Scope = scope }), "http-5xx")
		starts, err := w.StartsElsewhere(t.Context(), "shop", key)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, start := range starts {
			got = append(got, start.Job)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", scope, diff)
		}
	}
}

func TestNoJobOfAnotherProjectIsNamed(t *testing.T) {
	elsewhere, here := Start{Project: "other", Job: "theirs", At: t0}, Start{Project: "shop", Job: "ours", At: t0.Add(-time.Minute)}
	for want, starts := range map[string][]Start{
		"for other projects; ToolHealth says what is in force":                       {elsewhere},
		"job ours, the newest, says what was found, and ToolHealth what is in force": {elsewhere, here},
	} {
		got := Hour{Starts: starts, Most: len(starts)}.Refusal("search", v1alpha1.ScopeTenant, "shop", t0)
		if !strings.Contains(got, ": "+want+"; another error") || strings.Contains(got, "theirs") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAJobThatStillCountsMakesNoRoom(t *testing.T) {
	key := keyOf(place, report(), "http-5xx")
	stored := func(n int, edit func(*v1alpha1.DiagnosisJob)) *v1alpha1.DiagnosisJob {
		job := &v1alpha1.DiagnosisJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: key.NameOf(n), UID: types.UID(key.NameOf(n))}}
		edit(job)
		return job
	}
	running := func(job *v1alpha1.DiagnosisJob) {
		job.Status.Phase, job.Status.StartedAt = v1alpha1.PhaseRunning, at(0)
	}
	for _, tc := range []struct {
		name string
		jobs []*v1alpha1.DiagnosisJob
		most int
		want int
	}{
		{name: "the fault's name", most: 4, want: 0},
		{name: "that of a job that began an hour ago", jobs: []*v1alpha1.DiagnosisJob{stored(0, began(-time.Hour))}, most: 4, want: 0},
		{name: "that of a job that never began", jobs: []*v1alpha1.DiagnosisJob{stored(0, yielded)}, most: 4, want: 0},
		{name: "that of an open job, which it meets there", jobs: []*v1alpha1.DiagnosisJob{stored(0, running)}, most: 4, want: 0},
		{name: "the next name beside a job that counts", jobs: []*v1alpha1.DiagnosisJob{stored(0, began(-time.Minute))}, most: 4, want: 1},
		{name: "and the next", jobs: []*v1alpha1.DiagnosisJob{stored(0, began(-time.Minute)), stored(1, began(-2*time.Minute))}, most: 4, want: 2},
		{name: "where all count, the oldest makes room", jobs: []*v1alpha1.DiagnosisJob{stored(0, began(-time.Minute)), stored(1, began(-2*time.Minute))}, most: 2, want: 1},
		{name: "without a limit every job makes room", jobs: []*v1alpha1.DiagnosisJob{stored(0, began(-time.Minute))}, want: 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.PerRowPerHour = tc.most
			for _, job := range tc.jobs {
				if err := w.client.Create(t.Context(), job.DeepCopy()); err != nil {
					t.Fatal(err)
				}
				created := &v1alpha1.DiagnosisJob{ObjectMeta: job.ObjectMeta}
				if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: job.Name}, created); err != nil {
					t.Fatal(err)
				}
				created.Status = job.Status
				if err := w.client.Status().Update(t.Context(), created); err != nil {
					t.Fatal(err)
				}
			}
			got, err := w.NameFor(t.Context(), "shop", key)
			if err != nil || got != key.NameOf(tc.want) || !w.OwnsName(key, got) {
				t.Errorf("got %s (%v), want %s", got, err, key.NameOf(tc.want))
			}
			if w.OwnsName(key, key.NameOf(max(tc.most, 1))) || w.OwnsName(tenancy.JobKey{}, got) {
				t.Error("a name of no key's makes room")
			}
		})
	}
}
