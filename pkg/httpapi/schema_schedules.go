package httpapi

import (
	"time"

	"github.com/jetcrew/jetcrew/scheduler"
)

// The types in this file describe schedules for the OpenAPI document. What is read and written is a scheduler.Spec and a
// scheduler.Schedule; a test holds them together.

// ScheduleSpec is what is declared of a schedule.
type ScheduleSpec struct {
	Space        string         `json:"space,omitempty" doc:"Left out, or what the path says."`
	Name         string         `json:"name,omitempty" maxLength:"160" doc:"Where the path has the name: left out, or the same."`
	Type         string         `json:"type" maxLength:"191" doc:"Of its jobs."`
	Queue        string         `json:"queue,omitempty" maxLength:"191" default:"default"`
	Cron         string         `json:"cron" doc:"Five fields, @daily and its like, or @every 90s." example:"30 2 * * *"`
	Timezone     string         `json:"timezone,omitempty" doc:"IANA zone whose clocks the expression means; UTC without." example:"Europe/Paris"`
	Environment  string         `json:"environment,omitempty" maxLength:"64" default:"main"`
	Input        map[string]any `json:"input,omitempty" doc:"Of its jobs."`
	MaxAttempts  int            `json:"maxAttempts,omitempty" minimum:"0" maximum:"1000000" default:"3"`
	Timeout      string         `json:"timeout,omitempty" doc:"How long one attempt may take." example:"1m"`
	Enabled      *bool          `json:"enabled,omitempty" doc:"Left out: it stays as it is, and a new one is enabled."`
	Jitter       string         `json:"jitter,omitempty" doc:"It fires up to so much later, always by the same amount." example:"30s"`
	MissedPolicy string         `json:"missedPolicy,omitempty" enum:"one,skip,each" default:"one" doc:"What becomes of fires that nobody made when they were due."`
	MissedLimit  int            `json:"missedLimit,omitempty" minimum:"1" maximum:"1000" doc:"With each: the newest so many; 10 without."`
	Overlap      string         `json:"overlap,omitempty" enum:"allow,skip,replace" default:"allow" doc:"What a fire does while the last one's job has not ended."`
}

// ScheduleSet is all that an owner declares in a space.
type ScheduleSet struct {
	Owner     string         `json:"owner" maxLength:"191" doc:"The program that declares them."`
	Schedules []ScheduleSpec `json:"schedules"`
}

// Schedule is a schedule's record. It may have members that are not described here.
type Schedule struct {
	ScheduleSpec
	Owner         string    `json:"owner,omitempty" doc:"The program that declares it; left out where people do."`
	NextRunAt     time.Time `json:"nextRunAt,omitempty" doc:"The promised instant of the next fire."`
	PromisedQueue string    `json:"promisedQueue,omitempty" doc:"Where the job of the next fire may stand already, if not in queue."`
	LastFireAt    time.Time `json:"lastFireAt,omitempty" doc:"The promised instant of the last fire, not when it was made."`
	LastJob       *Identity `json:"lastJob,omitempty"`
	Missed        int       `json:"missed,omitempty" doc:"Fires that got no job of their own since nobody made them when they were due."`
	Skipped       int       `json:"skipped,omitempty" doc:"Fires that made no job since the last one's had not ended."`
	Error         string    `json:"error,omitempty" doc:"Why the last fire could not be enqueued."`
	CreatedAt     time.Time `json:"createdAt,omitempty"`
	UpdatedAt     time.Time `json:"updatedAt,omitempty"`
	_             struct{}  `additionalProperties:"true"`
}

// ScheduleList are schedules.
type ScheduleList struct {
	Schedules  []Schedule `json:"schedules"`
	Total      int        `json:"total" doc:"How many there are, before the limit."`
	Unreadable []string   `json:"unreadable,omitempty" doc:"What is stored among them that is no schedule, and does not fire."`
}

// SchedulePut is what became of a schedule that was put.
type SchedulePut struct {
	Change   string                `json:"change" enum:"created,updated,unchanged"`
	Schedule Schedule              `json:"schedule"`
	Next     []scheduler.LocalFire `json:"next"`
	Warnings []string              `json:"warnings,omitempty" doc:"What somebody should know; no failures."`
}
